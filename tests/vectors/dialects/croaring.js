// Writes croaring.json, in a folder where `npm install roaring@2.7.0` has run: node croaring.js > croaring.json
// CRoaring's own serialization ("croaring", roaring_bitmap_serialize) and its frozen form of values added one by one,
// run-optimised.
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
  kinds: [[0, 5000, 2], [200000, 90, 1], [400000, 6000, 3], [700000, 9, 11], [900000, 80000, 1], [4294900000, 5000, 13]],
  mixed: [[0, 40, 1], [65536, 600, 3], [4000000000, 1, 1]],
};
const bitmaps = Object.entries(CASES).map(([name, sequences]) => {
  const bitmap = new RoaringBitmap32();
  for (const [first, count, step] of sequences) for (let i = 0; i < count; i++) bitmap.add(first + i * step);
  bitmap.runOptimize();
  const base64 = bitmap.serialize("croaring").toString("base64");
  return { name, sequences, base64, frozen: bitmap.serialize("unsafe_frozen_croaring").toString("base64") };
});
console.log(JSON.stringify({ producer: "npm roaring 2.7.0", CRoaring: RoaringBitmap32.CRoaringVersion, bitmaps }));
