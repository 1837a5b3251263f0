// The theme that the person has chosen, before anything is drawn: so no module, which would run later.

if (localStorage.getItem("parley.theme")) document.documentElement.dataset.theme = localStorage.getItem("parley.theme");
