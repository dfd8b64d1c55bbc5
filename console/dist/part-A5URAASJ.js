import{a,b,c}from"./part-4EYBK574.js";import"./part-QGNSW6W5.js";import"./part-OGWWNPOO.js";export{b as EventList,c as EventsPage,a as typeOf};
