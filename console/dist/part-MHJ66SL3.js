import{F as e,K as t}from"./part-OGWWNPOO.js";function g(l){return e(t,{title:"Schedules",children:null})}export{g as SchedulesPage};
