// Colours YAML line by line. A line of a text over several lines is coloured like any other line.

const PIECES = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|([A-Za-z_][\w.-]*)(?=\s*:(?:\s|$))|(\b\d[\d_.]*(?:ms|s|m|h|d|%)?\b)|(\b(?:true|false|null|unlimited)\b)|([[\]{},:&*|>-])/g;
const NAMES = [null, "comment", "text", "name", "number", "word", "sign"];

export function colour(line) {
  const pieces = [];
  let end = 0;
  for (const found of line.matchAll(PIECES)) {
    // A hash inside a word does not start a comment.
    if (found[1] && found.index > 0 && !/\s/.test(line[found.index - 1])) continue;
    if (found.index > end) pieces.push(line.slice(end, found.index));
    const kind = NAMES[found.findIndex((group, i) => i > 0 && group !== undefined)];
    const piece = document.createElement("span");
    piece.className = `y-${kind}`;
    piece.textContent = found[0];
    pieces.push(piece);
    end = found.index + found[0].length;
  }
  if (end < line.length) pieces.push(line.slice(end));
  return pieces;
}
