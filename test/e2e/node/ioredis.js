// ioredis against weir serve: node ioredis.js PORT [PASSWORD]. Prints the replies as one JSON object.
// Throws if the connection or a command fails unexpectedly.
'use strict';

const Redis = require('ioredis');

const [port, password] = process.argv.slice(2);

async function main() {
  const redis = new Redis({
    port: Number(port), host: '127.0.0.1', password, connectionName: 'e2e', maxRetriesPerRequest: 0,
    retryStrategy: null,
  });
  const seen = {};

  seen.ping = await redis.ping();
  seen.name = await redis.client('GETNAME');
  seen.throttle = [];
  for (let i = 0; i < 3; i++)
    seen.throttle.push(await redis.call('CL.THROTTLE', 'ioredis', 1, 1, 3600));
  seen.check = await redis.call('WEIR.CHECK', 'api', 'user', 'ioredis');

  const pipeline = redis.pipeline();
  for (let i = 0; i < 1000; i++)
    pipeline.call('CL.THROTTLE', 'ioredis:pipeline', 99, 1, 86400);
  const answers = await pipeline.exec();
  seen.admitted = answers.filter(([error, reply]) => !error && reply[0] === 0).length;
  seen.refused = answers.filter(([error, reply]) => !error && reply[0] === 1).length;

  const transaction = redis.multi();
  for (let i = 0; i < 3; i++)
    transaction.call('CL.THROTTLE', 'ioredis:multi', 1, 1, 3600);
  seen.transaction = (await transaction.exec()).map(([error, reply]) => error ? String(error) : reply[0]);

  seen.error = await redis.call('NOSUCH', 'x').catch((error) => error.message);
  await redis.quit();
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
