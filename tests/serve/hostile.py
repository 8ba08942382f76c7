"""Statements that try to read what is outside of the lake's tables, to write, or to change the server.

By the SQLSTATE with which each is refused. {secret} is a CSV file beside the lake, {data} one of the lake's own Parquet
files, {pointer} a metadata file, {new} a file that is not there.
"""

from __future__ import annotations

HOSTILE: dict[str, str] = {
    # Writes
    "25006": """
update extensions
insert into gold.orders values (9, 'x', 1)
INSERT INTO gold.orders SELECT * FROM gold.orders
insert into gold.orders values (1) returning id
/* a comment */ insert into gold.orders values (1)
-- a comment\\ninsert into gold.orders values (1)
update gold.orders set id = 1
update gold.orders set id = 1 from gold.customers
delete from gold.orders
delete from gold.orders using gold.customers
merge into gold.orders using gold.customers on true when matched then delete
truncate gold.orders
create table t (a int)
create table gold.t as select 1
create temp table t as select 1
create or replace table t as select 1
create view v as select 1
create materialized view v as select 1
create macro m(x) as x
create function f() returns int language sql as 'select 1'
create schema s
create database d
create secret s (type s3)
create persistent secret s (type s3)
create index i on gold.orders (id)
create sequence s
create type t as enum ('a')
create role r
create user u password 'x'
create extension httpfs
create foreign table t (a int) server s
alter table gold.orders add column x int
alter system set work_mem = '1GB'
alter role ann superuser
alter database main set search_path = x
drop table gold.orders
drop schema gold cascade
drop view if exists gold.orders
drop secret s3
drop role ann
grant select on gold.orders to public
revoke select on gold.orders from public
comment on table gold.orders is 'x'
vacuum
vacuum full gold.orders
analyze gold.orders
reindex database main
cluster gold.orders
refresh materialized view v
lock table gold.orders
checkpoint
import database '{secret}'
import foreign schema s from server x into y
security label on table gold.orders is 'x'
reassign owned by ann to bob
copy gold.orders from stdin
copy gold.orders from '{secret}'
copy gold.orders (id) from program 'cat'
copy (select 1) from '{secret}'
select * into t from gold.orders
select 1 into temp t
select * from gold.orders for update
select * from gold.orders for share
select * from gold.orders for no key update skip locked
with x as (insert into gold.orders values (1) returning id) select * from x
with x as (delete from gold.orders returning *) select * from x
with x as (update gold.orders set id = 1 returning *) select * from x
select * from (select 1) s, lateral (select * from gold.orders for update) t
explain insert into gold.orders values (1)
explain delete from gold.orders
explain create table t as select 1
explain (verbose) drop table gold.orders
select nextval('s')
select setval('s', 1)
select 1; drop table gold.orders
select ';'; delete from gold.orders
begin; insert into gold.orders values (1); commit
""",
    # Not allowed
    "42501": """
copy gold.orders to '{new}'
copy gold.orders to '{data}'
copy gold.orders to '{pointer}'
copy (select 1) to '{new}'
copy (select 1) to '{new}' (format csv)
copy (select * from gold.orders) to '{new}' with (format binary)
copy gold.orders to program 'cat'
copy (select 1) to program 'touch {new}'
load 'httpfs'
load '{new}'
select pg_read_file('{secret}')
select pg_read_file('{secret}', 0, 10)
select pg_catalog.pg_read_file('{secret}')
select pg_read_binary_file('{secret}')
select pg_ls_dir('/')
select * from pg_ls_dir('/')
select pg_stat_file('{secret}')
select lo_import('{secret}')
select lo_export(1, '{new}')
select pg_sleep(1000)
select pg_reload_conf()
select pg_rotate_logfile()
select dblink('host=x', 'select 1')
select pg_advisory_lock(1)
select pg_notify('a', 'b')
select query_to_xml('select 1', true, true, '')
select table_to_xml('gold.orders', true, true, '')
select (select pg_read_file('{secret}'))
select * from gold.orders where customer = pg_read_file('{secret}')
select array[pg_read_file('{secret}')]
select case when true then pg_read_file('{secret}') end
select coalesce(NULL, pg_read_file('{secret}'))
with x as (select pg_read_file('{secret}') as y) select * from x
select * from gold.orders order by pg_read_file('{secret}')
select count(*) over (partition by pg_read_file('{secret}')) from gold.orders
select sum(1) filter (where pg_read_file('{secret}') is null)
set role postgres
set session authorization postgres
""",
    # No such function: DuckDB has it, Postgres does not
    "42883": """
select mere_signal('mere', 1, true)
select pg_catalog.mere_signal('mere', 1, true)
select * from read_csv('{secret}')
select * from read_csv_auto('{secret}')
select * from READ_CSV('{secret}')
select * from "read_csv"('{secret}')
select * from read_text('{secret}')
select * from read_blob('{secret}')
select * from read_json('{secret}')
select * from read_json_auto('{secret}')
select * from read_ndjson('{secret}')
select * from read_json_objects('{secret}')
select * from read_parquet('{data}')
select * from read_parquet(array['{data}'])
select * from parquet_scan('{data}')
select * from parquet_metadata('{data}')
select * from parquet_schema('{data}')
select * from parquet_file_metadata('{data}')
select * from parquet_kv_metadata('{data}')
select * from parquet_bloom_probe('{data}', 'id', 1)
select * from iceberg_scan('{pointer}')
select * from iceberg_metadata('{pointer}')
select * from iceberg_snapshots('{pointer}')
select * from iceberg_to_ducklake('a', 'b')
select * from read_avro('{secret}')
select * from sniff_csv('{secret}')
select * from glob('/*')
select * from glob('{secret}')
select glob('/*')
select * from duckdb_settings()
select * from duckdb_secrets()
select * from duckdb_tables()
select * from duckdb_views()
select * from duckdb_columns()
select * from duckdb_functions()
select * from duckdb_extensions()
select * from duckdb_databases()
select * from duckdb_temporary_files()
select * from duckdb_memory()
select * from duckdb_logs()
select * from duckdb_prepared_statements()
select * from duckdb_external_file_cache()
select * from duckdb_approx_database_count()
select * from duckdb_keywords()
select * from pragma_version()
select * from pragma_table_info('gold.orders')
select * from pragma_database_size()
select * from pragma_storage_info('x')
select * from pragma_show('x')
select * from pragma_user_agent()
select * from pragma_platform()
select * from sqlite_scan('{secret}', 't')
select * from sqlite_attach('{secret}')
select * from postgres_scan('host=x', 'public', 't')
select * from mysql_query('x', 'select 1')
select * from st_read('{secret}')
select * from read_xlsx('{secret}')
select * from delta_scan('/')
select * from query('select 1')
select * from query_table('gold.orders')
select * from query('copy (select 1) to ''{new}''')
select * from arrow_scan(1, 2, 3)
select * from python_map_function(1)
select * from pandas_scan(1)
select * from repeat_row(1, num_rows => 10)
select * from test_all_types()
select * from summary((select 1))
select * from which_secret('s3://x', 's3')
select * from load_aws_credentials()
select * from enable_logging('QueryLog')
select * from enable_profiling()
select * from checkpoint()
select * from force_checkpoint()
select * from truncate_duckdb_logs()
select * from from_substrait('x')
select * from json_execute_serialized_sql(json_serialize_sql('select 1'))
select json_serialize_sql('select 1')
select json_serialize_plan('select 1')
select json_deserialize_sql('x')
select * from seq_scan('x')
select * from range(10)
select * from unnest_tokens('x')
select getenv('HOME')
select getenv('AWS_SECRET_ACCESS_KEY')
select getvariable('x')
select current_query()
select in_search_path('a', 'b')
select pg_catalog.getenv('HOME')
select read_text('{secret}')
select write_log('x')
select error('x')
select parse_path('{secret}')
select add_parquet_key('k', 'v')
select http_get('http://127.0.0.1/')
select add_numbers_together(1, 2)
select nextafter_x(1)
select list_transform(array[1], x -> getenv('HOME'))
select list_filter(array[1], x -> true)
select array_transform(array[1], x -> read_text('x'))
select reduce(array[1, 2], (x, y) -> x)
select (select getenv('HOME'))
select array[getenv('HOME')]
select array(select content from read_text('{secret}'))
select (select count(*) from read_csv('{secret}'))
select exists(select * from read_csv('{secret}'))
select 1 where 1 in (select 1 from read_csv('{secret}'))
select case when true then getenv('HOME') end
select coalesce(getenv('HOME'), '')
select 'a' || getenv('HOME')
select getenv('HOME')::text
select json_build_object('a', getenv('HOME'))
select json_build_object('a', (select content from read_text('{secret}')))
select max(getenv('HOME')) from gold.orders
select count(*) filter (where getenv('HOME') is not null) from gold.orders
select row_number() over (order by getenv('HOME')) from gold.orders
select * from gold.orders where getenv('HOME') = customer
select * from gold.orders group by getenv('HOME')
select * from gold.orders having getenv('HOME') is null
select * from gold.orders order by getenv('HOME')
select * from gold.orders limit length(getenv('HOME'))
select * from gold.orders join read_csv('{secret}') on true
select * from gold.orders, lateral read_csv('{secret}') x
select * from gold.orders cross join lateral (select * from read_text('{secret}')) x
with x as (select * from read_csv('{secret}')) select * from x
with recursive x as (select 1 union all select 1 from read_csv('{secret}')) select * from x
select * from (select * from (select * from (select * from read_csv('{secret}')) a) b) c
select 1 union all select content from read_text('{secret}')
select 1 except select 1 from read_csv('{secret}')
values ((select content from read_text('{secret}')))
select (values (getenv('HOME')))
(select getenv('HOME'))
((select * from read_csv('{secret}')))
copy (select * from read_csv('{secret}')) to stdout
copy (select getenv('HOME')) to stdout (format csv)
declare c cursor for select * from read_text('{secret}')
prepare p as select * from read_csv('{secret}')
explain select * from read_csv('{secret}')
select/**/getenv/**/('HOME')
select getenv -- a comment\\n ('HOME')
select "getenv"('HOME')
select U&"\\0067etenv"('HOME')
select * from read_csv(E'\\x2fetc\\x2fpasswd')
select * from read_text($$/etc/passwd$$)
select * from read_csv('{secret}') with ordinality
select distinct on (getenv('HOME')) 1 from gold.orders
select 1 from gold.orders window w as (order by getenv('HOME'))
select grouping(getenv('HOME')) from gold.orders group by rollup (getenv('HOME'))
select substring(getenv('HOME') from 1 for 2)
select extract(year from getenv('HOME'))
select trim(both 'x' from getenv('HOME'))
select interval '1 day' * length(getenv('HOME'))
select (array[1,2])[length(getenv('HOME'))]
select 1 = any(array[length(getenv('HOME'))])
select getenv('HOME') collate "C"
select 'a' ~ getenv('HOME')
select 'a' like getenv('HOME')
select getenv('HOME') is null
select not getenv('HOME') = 'x'
select -length(getenv('HOME'))
select (1, getenv('HOME')) = (1, 'x')
select getenv('HOME') between 'a' and 'b'
select getenv('HOME') at time zone 'UTC'
select string_agg(getenv('HOME'), ',' order by 1) from gold.orders
select percentile_cont(length(getenv('HOME'))) within group (order by 1) from gold.orders
""",
    # No such table
    "42P01": """
select * from '{secret}'
select * from "{secret}"
select * from '{data}'
select * from "{data}"
select * from "{pointer}"
select * from 'secret.csv'
select * from "secret.csv"
select * from "./secret.csv"
select * from 's3://bucket/x.parquet'
select * from "https://127.0.0.1/x.csv"
select * from "/etc/passwd"
select * from "*.parquet"
select * from "data.json"
select * from "data.db"
select count(*) from "{data}" where true
with x as (select * from "{secret}") select * from x
with "{secret}" as (select 1) select * from (select 1) a, "{data}"
select * from (with "{secret}" as (select 1) select 1) a, "{secret}"
select (select count(*) from "{secret}")
select * from gold.orders where exists (select * from "{secret}")
select * from gold.orders join "{secret}" on true
select array(select 1 from "{secret}")
copy "{secret}" to stdout
copy (select * from "{secret}") to stdout
explain select * from "{secret}"
select * from duckdb_tables
select * from duckdb_settings
select * from sqlite_master
select * from sqlite_schema
select * from sqlite_temp_master
select * from pragma_database_list
select * from lake.x
select * from catalog.x
select * from pg.text
select * from main.duckdb_columns
select * from temp.x
select * from gold."orders copy"
select * from gold.nothing
select * from nothing
table "{secret}"
select * from pg_catalog."{secret}"
select * from information_schema."{secret}"
select * from "with 0"
with a as (select 1) select * from "with 0"
select 'x'::regclass
""",
    # No SQL of Postgres
    "42601": """
reset_x = 1
set global threads = 1
select apply(array[1], x -> x)
attach '{secret}'
attach '{new}' as x
attach database '{new}' (type sqlite)
attach 's3://x/y.db' (read_only)
detach memory
install httpfs
install '{new}'
force install httpfs
pragma version
pragma database_list
pragma enable_profiling
pragma enable_profiling='json'
pragma profiling_output='{new}'
pragma memory_limit='1GB'
pragma import_database('{secret}')
pragma table_info('gold.orders')
export database '{new}'
export database '{new}' (format parquet)
use main
use memory.lake
from gold.orders
from '{secret}'
from read_csv('{secret}')
describe gold.orders
describe select 1
desc gold.orders
summarize gold.orders
summarize '{secret}'
pivot gold.orders on customer using count(*)
unpivot gold.orders on id into name n value v
get_bit
.read {secret}
\\copy gold.orders to {new}
!ls
select
select from where
select * from
select (1
select 'a
select "a
select $$a
select 1 +
with x as select 1
copy gold.orders
copy gold.orders to
copy to stdout
explain
declare c cursor
prepare p as
show
select ?
select :x
select @x
select $0
select $99999
select $x
""",
    # A ref that is not there
    "3D000": """
select * from system.information_schema.tables
select * from memory.lake.x
select * from "@main".gold.orders
select * from nowhere.gold.orders
select * from "{secret}".gold.orders
select * from gold.orders for version as of '{secret}'
select * from "main; drop table x".gold.orders
""",
    # Known, and not for here
    "0A000": """
select * from gold.orders at (version => 1)
call pragma_version()
call enable_profiling()
call force_checkpoint()
call duckdb_logs()
do $$ begin perform 1; end $$
listen x
notify x
explain analyze select 1
explain (analyze) select * from gold.orders
commit prepared 'x'
rollback prepared 'x'
prepare transaction 'x'
select * from gold.orders tablesample bernoulli (10)
""",
    # Settings
    "42704": """
set threads = 1
set memory_limit = '100GB'
set enable_external_access = true
set lock_configuration = false
set allowed_directories = '/'
set temp_directory = '{new}'
set s3_access_key_id = 'x'
set autoload_known_extensions = true
set allow_unsigned_extensions = true
set custom_extension_repository = 'http://127.0.0.1'
set session threads = 1
set local threads = 1
set enable_profiling = 'json'
set profiling_output = '{new}'
set log_query_path = '{new}'
set http_proxy = 'x'
set home_directory = '/'
set disabled_optimizers = ''
set variable = 1
show threads
show s3_secret_access_key
show memory_limit
select current_setting('threads')
select current_setting('s3_secret_access_key')
select current_setting('temp_directory')
select pg_catalog.current_setting('memory_limit')
select set_config('threads', '1', false)
select set_config('enable_external_access', 'true', false)
""",
    "3F000": """
select pg.text(1)
select system.getenv('HOME')
select main.getenv('HOME')
select memory.main.getenv('HOME')
select lake.f(1)
select "pg"."text"(1)
select temp.f(1)
""",
}
