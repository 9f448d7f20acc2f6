/** Places the vertices of a graph without cycles: in columns by level, few crossings, edges as straight as can be.
 *
 * The steps are Sugiyama's: levels by the longest path; a bend in each level that a long edge passes; an order that
 * follows the neighbours' mean; then for each column the heights closest to those means that keep their distance.
 */

const SWEEPS = 12;
/** How much of a vertex's height a bend takes. */
const BEND = 0.35;

/**
 * @param vertices `{id, inputs: [id, …]}` each
 * @param size `{width, height, across, down}`: of a vertex, and the gaps between columns and rows
 * @returns `{width, height, places: Map(id → {x, y}), edges: [{from, to, points: [{x, y}, …]}]}`
 */
export function layout(vertices, size) {
  const { columns, edges } = inColumns(vertices);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const [column, side] of directions(columns, sweep)) {
      column.sort((a, b) => wish(a, side) - wish(b, side));
      column.forEach((node, index) => (node.y = index));
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const [column, side] of directions(columns, sweep)) keepDistance(column, (node) => wish(node, side));
  }
  return inPixels(columns, edges, size);
}

function inColumns(vertices) {
  const nodes = new Map(vertices.map(({ id }) => [id, node(id, 1)]));
  const inputs = new Map(vertices.map((vertex) => [vertex.id, vertex.inputs.filter((id) => nodes.has(id))]));
  const levels = new Map();
  const levelOf = (id) => {
    if (!levels.has(id)) levels.set(id, Math.max(0, ...inputs.get(id).map((source) => levelOf(source) + 1)));
    return levels.get(id);
  };
  const columns = Array.from({ length: Math.max(0, ...vertices.map(({ id }) => levelOf(id) + 1)) }, () => []);
  vertices.forEach(({ id }) => columns[levelOf(id)].push(nodes.get(id)));
  const edges = [];
  for (const { id: to } of vertices) {
    for (const from of inputs.get(to)) {
      const way = [nodes.get(from)];
      for (let level = levelOf(from) + 1; level < levelOf(to); level += 1) {
        way.push(node(null, BEND));
        columns[level].push(way.at(-1));
      }
      way.push(nodes.get(to));
      way.slice(1).forEach((next, index) => {
        way[index].after.push(next);
        next.before.push(way[index]);
      });
      edges.push({ from, to, way });
    }
  }
  columns.forEach((column, level) => column.forEach((one, index) => Object.assign(one, { level, y: index })));
  return { columns, edges };
}

const node = (id, share) => ({ id, share, before: [], after: [], level: 0, y: 0 });

/** The columns from left to right with their inputs' side, or back with the other. */
function directions(columns, sweep) {
  return sweep % 2 ? columns.map((column) => [column, "after"]).reverse() : columns.map((column) => [column, "before"]);
}

function wish(one, side) {
  const neighbours = one[side].length ? one[side] : [one];
  return neighbours.reduce((sum, other) => sum + other.y, 0) / neighbours.length;
}

/** Heights of least squares from the wishes, in order and apart: neighbours that would overlap share their mean. */
function keepDistance(column, wished) {
  const groups = [];
  let offset = 0;
  column.forEach((one, index) => {
    offset += index ? (column[index - 1].share + one.share) / 2 : 0;
    groups.push({ mean: wished(one) - offset, members: [[one, offset]] });
    while (groups.length > 1 && groups.at(-2).mean > groups.at(-1).mean) {
      const [upper, lower] = groups.splice(-2);
      const members = [...upper.members, ...lower.members];
      const mean = (upper.mean * upper.members.length + lower.mean * lower.members.length) / members.length;
      groups.push({ mean, members });
    }
  });
  groups.forEach(({ mean, members }) => members.forEach(([one, offset]) => (one.y = mean + offset)));
}

/** Where an edge ends at its vertex, from -0.5 to 0.5: several come in below each other, in the order of their ways. */
function port(way) {
  const [before, last] = way.slice(-2);
  const ends = [...last.before].sort((a, b) => a.y - b.y);
  return (ends.indexOf(before) + 1) / (ends.length + 1) - 0.5;
}

function inPixels(columns, edges, { width, height, across, down }) {
  const all = columns.flat();
  const top = Math.min(...all.map((one) => one.y - (one.share - 1) / 2), 0);
  const centre = (one) => (one.y - top) * (height + down) + height / 2;
  const left = (one) => one.level * (width + across);
  const vertices = all.filter((one) => one.id !== null);
  return {
    width: Math.max(0, columns.length * (width + across) - across),
    height: Math.max(0, ...all.map((one) => centre(one) + (one.share * height) / 2)),
    places: new Map(vertices.map((one) => [one.id, { x: left(one), y: centre(one) - height / 2 }])),
    edges: edges.map(({ from, to, way }) => {
      const points = way.flatMap((one) => [left(one), left(one) + width].map((x) => ({ x, y: centre(one) }))).slice(1, -1);
      points.at(-1).y += port(way) * height * BEND;
      return { from, to, points };
    }),
  };
}
