import{F as r,K as o}from"./part-OGWWNPOO.js";function g(t){return r(o,{title:"Groups",children:null})}export{g as GroupsPage};
