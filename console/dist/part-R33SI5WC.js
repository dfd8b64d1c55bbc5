import{F as o,K as t}from"./part-OGWWNPOO.js";function r(e){return o(t,{title:"Playbooks",children:null})}export{r as PlaybooksPage};
