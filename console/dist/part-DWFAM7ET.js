import{F as e,K as r}from"./part-OGWWNPOO.js";function g(o){return e(r,{title:"Sources",children:null})}export{g as SourcesPage};
