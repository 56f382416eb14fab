// Checks an OpenAPI document with the rules of redocly; prints the problems as JSON.
const { createConfig, lint } = require('@redocly/openapi-core');

async function main(path) {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lint({ ref: path, config });

  console.log(JSON.stringify(problems.map(({ ruleId, message, location }) =>
    ({ rule: ruleId, message, at: location[0]?.pointer }))));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
