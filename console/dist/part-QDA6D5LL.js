import{F as t,K as e}from"./part-OGWWNPOO.js";function i(g){return t(e,{title:"Settings",children:null})}export{i as SettingsPage};
