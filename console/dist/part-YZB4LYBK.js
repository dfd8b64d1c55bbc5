import{F as n,K as t}from"./part-OGWWNPOO.js";function g(e){return n(t,{title:"Runs",children:null})}export{g as RunsPage};
