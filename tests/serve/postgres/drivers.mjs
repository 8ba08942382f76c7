// What node's drivers see of a server: node drivers.mjs NAME URL. As drivers.py does it.

const [name, url] = process.argv.slice(2);
const said = {};
const VALUES = `SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c, 1.5::float8 AS d, 12.340::numeric(10,3) AS e, 'x'::text AS f,
  true AS g, NULL::int4 AS h, date '2024-02-29' AS i, timestamptz '2024-02-29 12:34:56+00' AS j, '{"a": 1}'::json AS k,
  decode('00ff', 'hex') AS l, ARRAY[1, 2, NULL]::int4[] AS m, ARRAY['a', 'b,"']::text[] AS n`;
const NUMBERS = "SELECT n, 'n' || n AS name FROM generate_series(1, 2500) AS g(n) ORDER BY 1";
const MISTAKES = ["SELECT 1/0", "SELEC 1", "SELECT nosuch", "SELECT * FROM nosuch", "SELECT 'x'::int"];

async function say(what, act) {
  try {
    said[what] = JSON.stringify(await act());
  } catch (error) {
    said[what] = `${error.constructor.name} ${error.code ?? error.message}`;
  }
}

const tried = {
  async pg() {
    const { default: pg } = await import("pg");
    const client = new pg.Client(url);
    await client.connect();
    await say("values", async () => (await client.query(VALUES)).rows);
    await say("columns", async () => (await client.query(VALUES)).fields.map((each) => [each.name, each.dataTypeID]));
    await say("array", async () => (await client.query({ text: VALUES, rowMode: "array" })).rows);
    await say("given", async () => (await client.query("SELECT $1::int,$2::text[],$3::json", [1, ["x"], { a: 1 }])).rows);
    await say("named", async () => (await client.query({ name: "q", text: "SELECT $1::int", values: [7] })).rows);
    await say("count", async () => (await client.query(NUMBERS)).rowCount);
    for (const each of MISTAKES) await say(each, () => client.query(each));
    await client.query("BEGIN READ ONLY");
    await say("transaction", async () => (await client.query("SHOW transaction_read_only")).rows);
    await client.query("ROLLBACK");
    await client.end();
    const pool = new pg.Pool({ connectionString: url, max: 4 });
    await say("pool", () => Promise.all([...Array(20).keys()].map(async (n) => (await pool.query("SELECT $1::int", [n])).rows)));
    await pool.end();
  },
  async postgres() {
    const { default: postgres } = await import("postgres");
    const sql = postgres(url, { max: 3 });
    await say("values", () => sql.unsafe(VALUES));
    await say("given", () => sql`SELECT ${1}::int AS a, ${"x"}::text AS b, ${[1, 2]}::int[] AS c, ${sql.json({ a: 1 })}::json AS d`);
    await say("in", () => sql`SELECT 2 IN ${sql([1, 2])} AS found`);
    await say("list", () => sql`SELECT a FROM ${sql("gold.orders")} AS o(a) WHERE false`);
    await say("cursor", async () => {
      let count = 0;
      for await (const rows of sql.unsafe(NUMBERS).cursor(100)) count += rows.length;
      return count;
    });
    await say("begin", () => sql.begin("read only", (inner) => inner`SHOW transaction_read_only`));
    for (const each of MISTAKES) await say(each, () => sql.unsafe(each));
    await sql.end();
  },
};

await tried[name]();
console.log(JSON.stringify(said));
