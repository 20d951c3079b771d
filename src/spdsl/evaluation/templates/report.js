"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const status = document.getElementById("sorted");
  const valueOf = (row, column) => row.cells[column].dataset.value;
  const compare = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(String(b), "en") : Number(a) - Number(b));
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = { ascending: "descending", descending: "ascending" };
      const order = turned[head.getAttribute("aria-sort")] || head.dataset.first;
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].sort((one, other) => {
        const a = valueOf(one, column), b = valueOf(other, column);
        if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // nothing there: last
        return sign * compare(a, b);
      });
      body.append(...rows);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      status.textContent = `Sorted by ${button.textContent}, ${order}.`;
    });
  });
}
