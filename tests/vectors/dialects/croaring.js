// Writes croaring.json, in a folder where `npm install roaring@2.7.0` has run: node croaring.js > croaring.json
// CRoaring's own serialization ("croaring", roaring_bitmap_serialize) of values added one by one, run-optimised.
// Each bitmap is listed as sequences: first value, number of values, step.
const { RoaringBitmap32 } = require("roaring");
const CASES = {
  empty: [],
  one: [[7, 1, 1]],
  few: [[1, 3, 2]],
  highest: [[0, 2, 4294967295]],
  array: [[0, 100, 700]],
  run: [[0, 70000, 1]],
  bitset: [[0, 5000, 2]],
  mixed: [[0, 40, 1], [65536, 600, 3], [4000000000, 1, 1]],
};
const bitmaps = Object.entries(CASES).map(([name, sequences]) => {
  const bitmap = new RoaringBitmap32();
  for (const [first, count, step] of sequences) for (let i = 0; i < count; i++) bitmap.add(first + i * step);
  bitmap.runOptimize();
  return { name, sequences, base64: bitmap.serialize("croaring").toString("base64") };
});
console.log(JSON.stringify({ producer: "npm roaring 2.7.0", CRoaring: RoaringBitmap32.CRoaringVersion, bitmaps }));
