/* Tables inside .sortable: a click or Enter on a heading sorts by that column, numbers as numbers. */
document.addEventListener("DOMContentLoaded", () => {
  const number = text => { const found = text.match(/-?\d+(\.\d+)?/); return found ? parseFloat(found[0]) : NaN; };
  document.querySelectorAll(".sortable table").forEach(table => {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((head, column) => {
      if (!head.textContent.trim()) return;
      head.tabIndex = 0;
      head.setAttribute("aria-sort", "none");
      const sort = () => {
        const rising = head.getAttribute("aria-sort") === "descending";
        const value = row => row.cells[column].textContent.trim();
        const last = row => row.cells[0].textContent.startsWith("mean");
        const numeric = [...body.rows].filter(r => value(r)).every(r => /^-?\d/.test(value(r)));
        const compare = (a, b) => numeric ? number(value(a)) - number(value(b)) : value(a).localeCompare(value(b));
        const rows = [...body.rows].sort((a, b) => last(a) - last(b) || !value(a) - !value(b) || (rising ? 1 : -1) * compare(a, b));
        table.querySelectorAll("th").forEach(other => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
    });
  });
});
