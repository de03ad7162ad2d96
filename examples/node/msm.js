// Sums points on a Capstan server, and compares the sum with that of @noble/curves.
//
// node msm.js http://127.0.0.1:7654
import { randomBytes } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { normalizeZ, pippenger } from "@noble/curves/abstract/curve.js";
import { bls12_381 } from "@noble/curves/bls12-381.js";
import { bytesToNumberLE, numberToBytesBE } from "@noble/curves/utils.js";
import { describe, transportTo } from "./connection.js";
import { Admin } from "./gen/capstan/v1/admin_pb.js";
import { Compute } from "./gen/capstan/v1/compute_pb.js";
import { Store } from "./gen/capstan/v1/store_pb.js";
import * as api from "./gen/capstan/v1/types_pb.js";

const N = 2048;
// Small, so that these small payloads have several chunks. 256 KiB is fast, and a chunk has at most
// limits.messagePayloadBytes of Admin.GetInfo.
const CHUNK = 32 * 1024;
const Point = bls12_381.G1.Point;

// Errors of calls arrive here, too.
process.on("uncaughtException", (error) => {
  console.error(`error: ${describe(error)}`);
  process.exit(1);
});

/** The messages of an upload: its header, then the payload in chunks. */
async function* upload(header, payload) {
  yield { message: header };
  for (let at = 0; at < payload.length; at += CHUNK) {
    const chunk = { offset: BigInt(at), data: payload.subarray(at, at + CHUNK) };
    yield { message: { case: "chunk", value: chunk } };
  }
}

const transport = transportTo(
  process.argv[2] ?? "http://127.0.0.1:7654",
  process.env.CAPSTAN_TOKEN,
);
const store = createClient(Store, transport);
const compute = createClient(Compute, transport);
const { version, engine, caller } = await createClient(Admin, transport).getInfo({});
console.log(
  `server: Capstan ${version}, engine ${engine}, which knows this caller as ${caller.subject}`,
);

// The points G, 2 G, 3 G, ...: the server checks each one, and names all of them by their hash.
const points = [Point.BASE];
while (points.length < N) points.push(points.at(-1).add(Point.BASE));
const affine = normalizeZ(Point, points).map((point) => point.toAffine());
const payload = Buffer.concat(
  affine.flatMap(({ x, y }) => [numberToBytesBE(x, 48), numberToBytesBE(y, 48)]),
);
const encoding = api.PointEncoding.UNCOMPRESSED;
const bases = { uploadId: randomBytes(16), group: api.Group.G1, encoding, count: BigInt(N) };
const { object } = await store.put(upload({ case: "bases", value: bases }, payload));
const { objectId } = object.kind.value;
console.log(`bases:  ${Buffer.from(objectId).toString("hex")}, ${N} points`);

// Store.Get sends the points back in chunks, in order.
const received = [];
for await (const { chunk } of store.get({ id: { case: "objectId", value: objectId }, encoding })) {
  received.push(chunk.data);
}
if (!payload.equals(Buffer.concat(received))) throw new Error("the server returned other points");

// Random scalars of 254 bits, little-endian: all are less than r.
const scalars = randomBytes(32 * N).map((byte, at) => (at % 32 === 31 ? byte & 0x3f : byte));
const spec = {
  group: api.Group.G1,
  bases: { case: "stored", value: { objectId } },
  resultEncoding: api.ResultEncoding.COMPRESSED,
  verify: api.Verify.FULL, // the server computes the sum twice, by two libraries
};
const vector = {
  uploadId: randomBytes(16),
  encoding: api.ScalarEncoding.CANONICAL,
  count: BigInt(N),
};
const header = { case: "header", value: { spec, scalars: vector } };
const { result } = await compute.msmStream(upload(header, scalars));
const { device, verified } = result.execution;
const sum = Buffer.from(result.points).toString("hex");
console.log(
  `sum:    ${sum}, by ${device} in ${result.timing.computeUs} us, check: ${api.Verify[verified]}`,
);

const integers = points.map((_, i) => bytesToNumberLE(scalars.subarray(32 * i, 32 * i + 32)));
const expected = pippenger(Point, points, integers).toHex();
if (sum !== expected) throw new Error(`@noble/curves computes another sum: ${expected}`);
console.log("equal to the sum of @noble/curves");
