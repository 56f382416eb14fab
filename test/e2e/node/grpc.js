// @grpc/grpc-js against weir serve: node grpc.js PORT PROTO_FOLDER. Prints the responses as
// one JSON object.
'use strict';

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [port, folder] = process.argv.slice(2);
const files = ['envoy/service/ratelimit/v3/rls.proto', 'grpc/health/v1/health.proto'];
const made = grpc.loadPackageDefinition(
  loader.loadSync(files, {includeDirs: [folder], enums: String, longs: Number, keepCase: true}));
const address = `127.0.0.1:${port}`;
const plain = grpc.credentials.createInsecure();

const rls = new made.envoy.service.ratelimit.v3.RateLimitService(address, plain, {
  'grpc.default_compression_algorithm': 2, // gzip
});
const health = new made.grpc.health.v1.Health(address, plain);

const soon = () => ({deadline: Date.now() + 60000});

function ask(key, value, extra = {}) {
  const message = {domain: 'rl', descriptors: [{entries: [{key, value}], ...extra}]};

  return new Promise((resolve) => {
    rls.ShouldRateLimit(message, soon(), (error, answer) => resolve(error || answer));
  });
}

function watch() {
  return new Promise((resolve, reject) => {
    const stream = health.Watch({service: 'ratelimit'}, soon());

    stream.on('data', (answer) => {
      resolve(answer.status);
      stream.cancel();
    });
    stream.on('error', reject);
  });
}

async function main() {
  const seen = {first: await ask('user', 'js'), watch: await watch()};
  const all = await Promise.all(Array.from({length: 500}, () => ask('user', 'many')));

  seen.admitted = all.filter((answer) => answer.overall_code === 'OK').length;
  seen.refused = all.filter((answer) => answer.overall_code === 'OVER_LIMIT').length;
  seen.long = (await ask('user', 'x'.repeat(60000))).overall_code;
  const bad = await ask('user', 'js', {limit: {requests_per_unit: 1, unit: 'UNKNOWN'}});
  seen.bad = [bad.code, bad.details];
  console.log(JSON.stringify(seen));
  rls.close();
  health.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
