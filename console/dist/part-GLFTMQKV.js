import{F as e,K as r}from"./part-OGWWNPOO.js";function l(t){return e(r,{title:"Delivery",children:null})}export{l as DeliveryPage};
