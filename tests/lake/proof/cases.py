"""What is tried: expressions of every combination of types, and queries. The simple ones come first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.lake.proof.values import column

INTS = "int bigint"
NUMBERS = "int bigint float double decimal(12,3)"
ONE_DECIMAL = NUMBERS
TIMES = "date timestamp timestamp_ntz"
PLAIN = f"boolean {NUMBERS} string {TIMES}"
ARRAYS = "array<int> array<string> array<double>"

# A template, and for each of its gaps the types that are tried in it; `=`: the type of the first.
EXPRESSIONS = """
{0} | boolean int bigint float double decimal(12,3) string date timestamp timestamp_ntz binary
not {0} | boolean
{0} and {1} | boolean | boolean
{0} or {1} | boolean | boolean
{0} is null | PLAIN binary ARRAYS map<string,int>
{0} is not null | PLAIN
isnull({0}) | PLAIN
isnotnull({0}) | PLAIN
{0} is true | boolean
{0} is not false | boolean
{0} is false | boolean
{0} = {1} | PLAIN binary | =
{0} != {1} | PLAIN binary | =
{0} < {1} | PLAIN binary | =
{0} <= {1} | PLAIN | =
{0} > {1} | PLAIN | =
{0} >= {1} | PLAIN | =
{0} <=> {1} | PLAIN | =
{0} is distinct from {1} | PLAIN | =
{0} is not distinct from {1} | PLAIN | =
{0} OP {1} | NUMBERS decimal(10,2) | NUMBERS decimal(10,2)
{0} OP {1} | date timestamp timestamp_ntz | date timestamp timestamp_ntz
{0} OP '2024-02-29' | TIMES string
{0} OP '2024-02-29 13:14:15' | TIMES string
{0} OP {1} | string | int date double boolean
{0} between {1} and {2} | PLAIN | = | =
{0} between {1} and {2} | date | timestamp | timestamp
{0} between {1} and {2} | timestamp timestamp_ntz | date | date
{0} between '2020-01-01' and '2024-12-31' | TIMES
{0} between 1 and 10 | NUMBERS
{0} in ({1}, {2}) | PLAIN | = | =
{0} in (1, 2, 7) | NUMBERS
{0} in (1, -0.5, 0.1) | NUMBERS
{0} in (1.5, -2.5) | NUMBERS
{0} in ('abc', 'b') | string
{0} in ('2024-02-29', '1970-01-01') | date
{0} in (date '2024-02-29') | date
{0} not in ('abc', NULL) | string
{0} + {1} | NUMBERS decimal(10,2) | NUMBERS decimal(10,2)
{0} - {1} | NUMBERS decimal(10,2) | NUMBERS decimal(10,2)
{0} * {1} | NUMBERS decimal(10,2) | NUMBERS decimal(10,2)
{0} / {1} | NUMBERS decimal(10,2) | NUMBERS decimal(10,2)
{0} % {1} | NUMBERS | NUMBERS
mod({0}, {1}) | NUMBERS | =
{0} div {1} | INTS | INTS
pmod({0}, {1}) | INTS double | =
{0} + 1 | NUMBERS
{0} - 1 | NUMBERS
{0} * 2 | NUMBERS
{0} * 100 | NUMBERS
{0} * 1.5 | NUMBERS
{0} / 100 | NUMBERS
{0} / 100.0 | NUMBERS
{0} * 0.01 | NUMBERS
{0} % 3 | NUMBERS
-{0} | NUMBERS
+{0} | NUMBERS
abs({0}) | NUMBERS
sign({0}) | NUMBERS
signum({0}) | NUMBERS
ceil({0}) | NUMBERS
ceiling({0}) | NUMBERS
floor({0}) | NUMBERS
round({0}) | NUMBERS
round({0}, 0) | NUMBERS
round({0}, 1) | NUMBERS
round({0}, 2) | NUMBERS
round({0}, 3) | NUMBERS
round({0}, 4) | NUMBERS
round({0}, -1) | NUMBERS
bround({0}, 2) | NUMBERS
sqrt({0}) | NUMBERS
exp({0}) | double int
ln({0}) | double int
log({0}) | double int
log10({0}) | double int
log2({0}) | double int
power({0}, {1}) | double int | double int
pow({0}, {1}) | double int | double int
sin({0}) | double
cos({0}) | double
isnan({0}) | double float
nanvl({0}, {1}) | double | double
pi() |
e() |
greatest({0}, {1}) | PLAIN | =
least({0}, {1}) | PLAIN | =
greatest({0}, {1}) | NUMBERS | NUMBERS
least({0}, {1}) | NUMBERS | NUMBERS
coalesce({0}, {1}) | PLAIN binary array<int> array<string> | =
coalesce({0}, {1}) | NUMBERS date timestamp timestamp_ntz | NUMBERS date timestamp timestamp_ntz
coalesce({0}, 0) | NUMBERS
coalesce({0}, 'none') | string
nvl({0}, {1}) | PLAIN | =
nvl({0}, 0) | NUMBERS
ifnull({0}, {1}) | PLAIN | =
ifnull({0}, 0) | NUMBERS
nullif({0}, {1}) | PLAIN | =
nullif({0}, 0) | NUMBERS
nvl2({0}, {1}, {1}) | int string | PLAIN
if({0}, {1}, {1}) | boolean | PLAIN
if({0}, {1}, NULL) | boolean | PLAIN
if({0}, 1, 0) | boolean
case when {0} then {1} else {2} end | boolean | PLAIN | PLAIN
case when {0} then {1} end | boolean | PLAIN array<int>
case when {0} then {1} else 0 end | boolean | NUMBERS
case when {0} then {1} else NULL end | boolean | PLAIN
case when {0} then 'a' when {1} then 'b' else 'c' end | boolean | boolean
case {0} when {1} then 'a' else 'b' end | PLAIN | =
cast({0} as boolean) | boolean int bigint double decimal(12,3) string
cast({0} as int) | boolean NUMBERS string
cast({0} as bigint) | boolean NUMBERS string date timestamp
cast({0} as float) | boolean NUMBERS string
cast({0} as double) | boolean NUMBERS string
cast({0} as decimal(12,3)) | boolean NUMBERS string decimal(10,2)
cast({0} as decimal(10,2)) | NUMBERS string decimal(10,2)
cast({0} as decimal(20,6)) | NUMBERS decimal(10,2)
cast({0} as decimal(6,1)) | NUMBERS decimal(10,2)
cast({0} as decimal(18,0)) | NUMBERS
cast({0} as string) | PLAIN binary
cast({0} as date) | TIMES string
cast({0} as timestamp) | TIMES string
cast({0} as timestamp_ntz) | TIMES string
cast({0} as binary) | string binary
try_cast({0} as int) | string double int
try_cast({0} as double) | string int
try_cast({0} as date) | string timestamp
string({0}) | PLAIN
int({0}) | NUMBERS string
bigint({0}) | NUMBERS string
double({0}) | NUMBERS string
date({0}) | TIMES string
timestamp({0}) | TIMES string
to_date({0}) | TIMES string
to_timestamp({0}) | TIMES string
year({0}) | TIMES
month({0}) | TIMES
day({0}) | TIMES
dayofmonth({0}) | TIMES
dayofweek({0}) | TIMES
weekday({0}) | TIMES
dayofyear({0}) | TIMES
weekofyear({0}) | TIMES
quarter({0}) | TIMES
hour({0}) | timestamp timestamp_ntz
minute({0}) | timestamp timestamp_ntz
second({0}) | timestamp timestamp_ntz
monthname({0}) | TIMES
dayname({0}) | TIMES
extract(year from {0}) | TIMES
extract(month from {0}) | TIMES
extract(day from {0}) | TIMES
extract(quarter from {0}) | TIMES
extract(week from {0}) | TIMES
extract(dow from {0}) | TIMES
extract(doy from {0}) | TIMES
extract(hour from {0}) | timestamp timestamp_ntz
extract(minute from {0}) | timestamp timestamp_ntz
extract(second from {0}) | timestamp timestamp_ntz
date_part('year', {0}) | TIMES
date_part('month', {0}) | TIMES
date_part('day', {0}) | TIMES
date_part('dow', {0}) | TIMES
date_part('hour', {0}) | timestamp timestamp_ntz
date_trunc('year', {0}) | TIMES
date_trunc('quarter', {0}) | TIMES
date_trunc('month', {0}) | TIMES
date_trunc('week', {0}) | TIMES
date_trunc('day', {0}) | TIMES
date_trunc('hour', {0}) | TIMES
date_trunc('minute', {0}) | TIMES
date_trunc('second', {0}) | TIMES
trunc({0}, 'year') | TIMES
trunc({0}, 'YYYY') | TIMES
trunc({0}, 'quarter') | TIMES
trunc({0}, 'month') | TIMES
trunc({0}, 'MM') | TIMES
trunc({0}, 'week') | TIMES
date_add({0}, {1} % 1000) | TIMES | int
date_add({0}, 7) | TIMES
date_sub({0}, {1} % 1000) | TIMES | int
date_sub({0}, 7) | TIMES
datediff({0}, {1}) | TIMES | TIMES
date_diff({0}, {1}) | TIMES | TIMES
add_months({0}, {1} % 50) | TIMES | int
add_months({0}, 1) | TIMES
last_day({0}) | TIMES
{0} + 1 | date
{0} - 1 | date
{0} - {1} | date | date
{0} + interval 1 day | TIMES
{0} - interval 7 days | TIMES
{0} + interval '3' day | TIMES
{0} + interval 1 month | TIMES
{0} - interval 1 month | TIMES
{0} + interval 1 year | TIMES
{0} + interval 2 hours | timestamp timestamp_ntz
{0} - interval 30 minutes | timestamp timestamp_ntz
{0} + interval 1 week | TIMES
{0} + interval 5 seconds | timestamp timestamp_ntz
date_format({0}, 'yyyy-MM-dd') | TIMES
date_format({0}, 'yyyy-MM') | TIMES
date_format({0}, 'yyyy') | TIMES
date_format({0}, 'MM') | TIMES
date_format({0}, 'dd') | TIMES
date_format({0}, 'HH:mm') | TIMES
date_format({0}, 'yyyy-MM-dd HH:mm:ss') | TIMES
date_format({0}, 'yyyyMMdd') | TIMES
date_format({0}, 'dd/MM/yyyy') | TIMES
date_format({0}, 'HH') | TIMES
date_format({0}, 'mm') | TIMES
date_format({0}, 'ss') | TIMES
date_format({0}, 'EEEE') | TIMES
date_format({0}, 'EEE') | TIMES
date_format({0}, 'MMM') | TIMES
date_format({0}, 'MMMM') | TIMES
date_format({0}, 'MMM yyyy') | TIMES
unix_seconds({0}) | timestamp
unix_millis({0}) | timestamp
unix_micros({0}) | timestamp
unix_timestamp({0}) | timestamp
timestamp_seconds({0}) | int
unix_date({0}) | date
make_date({0}, {1}, {2}) | int | int | int
timestampdiff(HOUR, {0}, {1}) | timestamp timestamp_ntz | =
timestampadd(HOUR, 2, {0}) | timestamp timestamp_ntz
timestampadd(DAY, {1} % 1000, {0}) | timestamp timestamp_ntz date | int
months_between({0}, {1}) | date | date
next_day({0}, 'MON') | date
{0} || {1} | string | string int date boolean decimal(12,3)
concat({0}, {1}) | string | string int date boolean
concat({0}, '-', {1}) | string | string
concat_ws('-', {0}, {1}) | string | string
concat_ws({0}, {1}, {2}) | string | string | string
length({0}) | string
len({0}) | string
char_length({0}) | string
character_length({0}) | string
upper({0}) | string
ucase({0}) | string
lower({0}) | string
lcase({0}) | string
initcap({0}) | string
trim({0}) | string
ltrim({0}) | string
rtrim({0}) | string
trim(both 'a' from {0}) | string
btrim({0}) | string
reverse({0}) | string
substring({0}, {1}) | string | int
substring({0}, 2) | string
substring({0}, 1, 3) | string
substring({0}, 0, 3) | string
substring({0}, -2, 2) | string
substring({0}, {1}, 2) | string | int
substr({0}, 1, 3) | string
substr({0}, 2) | string
left({0}, 2) | string
right({0}, 2) | string
left({0}, {1}) | string | int
right({0}, {1}) | string | int
replace({0}, {1}, {2}) | string | string | string
replace({0}, 'a', 'b') | string
translate({0}, 'ab', 'x') | string
lpad({0}, 5, '0') | string
rpad({0}, 5, '0') | string
lpad({0}, 5) | string
repeat({0}, 2) | string
repeat({0}, {1} % 5) | string | int
instr({0}, {1}) | string | string
instr({0}, 'a') | string
locate({0}, {1}) | string | string
position({0} in {1}) | string | string
startswith({0}, {1}) | string | string
endswith({0}, {1}) | string | string
contains({0}, {1}) | string | string
ascii({0}) | string
md5({0}) | string
sha2({0}, 256) | string
hex({0}) | string int
base64({0}) | binary
split_part({0}, ',', 1) | string
split_part({0}, ',', 2) | string
substring_index({0}, ',', 1) | string
levenshtein({0}, {1}) | string | string
{0} like 'a%' | string
{0} like '%b_c' | string
{0} like '%\\\\%%' | string
{0} like '_%' | string
{0} not like '%x%' | string
{0} like {1} | string | string
{0} ilike 'A%' | string
{0} rlike 'b' | string
{0} rlike '^[a-z]+' | string
{0} rlike '[0-9]+' | string
rlike({0}, '^a') | string
regexp_like({0}, '[A-C]') | string
{0} regexp '[0-9]' | string
regexp_replace({0}, '[ab]', 'X') | string
regexp_replace({0}, '[^0-9]+', '') | string
regexp_replace({0}, ' +', ' ') | string
regexp_extract({0}, '[0-9]+', 0) | string
regexp_extract({0}, '[a-z]+', 0) | string
split({0}, ',') | string
split({0}, '[, ]+') | string
array({0}, {1}) | int bigint double string date | =
array_contains({0}, 2) | array<int>
array_contains({0}, 'abc') | array<string>
array_contains({0}, {1}) | array<int> | int
size({0}) | ARRAYS map<string,int>
cardinality({0}) | ARRAYS
{0}[0] | ARRAYS
element_at({0}, 1) | ARRAYS
{0}['abc'] | map<string,int>
element_at({0}, 'abc') | map<string,int>
array_max({0}) | ARRAYS
array_min({0}) | ARRAYS
sort_array({0}) | array<int> array<string>
array_sort({0}) | array<int> array<string>
array_join({0}, ',') | array<string>
array_distinct({0}) | array<int> array<string>
transform({0}, x -> x + 1) | array<int>
transform({0}, x -> upper(x)) | array<string>
filter({0}, x -> x > 1) | array<int>
filter({0}, x -> x is not null) | array<int> array<string>
exists({0}, x -> x > 1) | array<int>
map_keys({0}) | map<string,int>
map_values({0}) | map<string,int>
"""

AGGREGATES = """
count({0}) | PLAIN array<int>
count(*) |
count(1) |
count(distinct {0}) | PLAIN
count(distinct {0}, {1}) | int string date double | int string date
sum({0}) | NUMBERS
sum(distinct {0}) | int bigint decimal(12,3)
avg({0}) | NUMBERS
mean({0}) | int bigint double
min({0}) | PLAIN
max({0}) | PLAIN
min(distinct {0}) | int
count_if({0}) | boolean
bool_and({0}) | boolean
bool_or({0}) | boolean
every({0}) | boolean
some({0}) | boolean
any({0}) | boolean
stddev({0}) | int double
stddev_samp({0}) | int double
stddev_pop({0}) | int double
variance({0}) | int double
var_samp({0}) | int double
var_pop({0}) | int double
corr({0}, {1}) | int double | =
covar_pop({0}, {1}) | int | =
skewness({0}) | int
kurtosis({0}) | int
median({0}) | int bigint double
percentile({0}, 0.5) | int bigint double
percentile({0}, 0.9) | int double
max_by({0}, r) | int string date
min_by({0}, r) | int string date
array_sort(collect_list({0})) | int string
array_sort(collect_set({0})) | int string
size(collect_list({0})) | int string date
size(collect_set({0})) | int string date
array_sort(array_agg({0})) | int string
sum({0}) filter (where {1} > 1) | int decimal(12,3) | int
count(*) filter (where {0} > 1) | int
"""
# In a window, where the row number decides between equal rows.
OVER = """
row_number() |
rank() |
dense_rank() |
percent_rank() |
cume_dist() |
ntile(4) |
lag({0}) | PLAIN
lead({0}) | PLAIN
lag({0}, 1) | PLAIN
lead({0}, 1) | PLAIN
lag({0}, 2, 0) | int
lag({0}, 1, 0) | NUMBERS
lead({0}, 1, 0) | NUMBERS
lag({0}, 1, {1}) | int string date decimal(12,3) | =
"""
FRAMED = """
first_value({0}) | PLAIN
last_value({0}) | PLAIN
first({0}) | PLAIN
last({0}) | PLAIN
nth_value({0}, 2) | int
last_value({0}) ignore nulls | int string date
first_value({0}) ignore nulls | int string date
last({0}, true) | int string
sum({0}) | NUMBERS
avg({0}) | int bigint double
min({0}) | PLAIN
max({0}) | PLAIN
count({0}) | PLAIN
count(*) |
count_if({0}) | boolean
"""
WINDOWS = (
    "partition by i1",
    "partition by i1 order by r",
    "partition by i1 order by r rows between unbounded preceding and current row",
    "partition by i1 order by r rows between unbounded preceding and unbounded following",
    "partition by i1 order by r rows between 3 preceding and current row",
    "partition by i1 order by r rows between 3 preceding and 1 preceding",
    "partition by i1 order by r rows between 2 preceding and 2 following",
    "partition by i1 order by r rows between current row and unbounded following",
    "partition by i1 order by r range between unbounded preceding and current row",
)
_SETS = {
    "PLAIN": PLAIN, "NUMBERS": NUMBERS, "INTS": INTS, "TIMES": TIMES, "ARRAYS": ARRAYS,
}  # fmt: skip
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")

# Queries by themselves: clauses, joins, set operations, subqueries.
QUERIES = """
select r from vals where i1 > 1
select distinct {0} as e from vals | PLAIN
select {0} as k, count(*) as n from vals group by {0} | PLAIN binary
select {0} as k, count(*) as n from vals group by 1 | int
select b1, i1, count(*) as n from vals group by all |
select i1 as k, count(*) as n from vals group by i1 having count(*) > 30
select {0} as k, count(*) as n from vals group by rollup({0}) | PLAIN
select {0} as k, count(*) as n from vals group by cube({0}) | PLAIN
select {0} as k, count(*) as n from vals group by grouping sets (({0}), ()) | PLAIN
select {0} as k, count(*) as n from vals where r < 0 group by rollup({0}) | PLAIN
select {0} as k, count(*) as n from vals where r < 0 group by cube({0}) | PLAIN
select {0} as k, count(*) as n from vals where r < 0 group by grouping sets (({0}), ()) | PLAIN
select i1, s1, count(*) as n, sum(r) as s, count(i1) as m from vals group by rollup(i1, s1)
select i1, s1, count(*) as n, sum(r) as s, count(i1) as m from vals group by cube(i1, s1)
select i1, s1, count(*) as n, max(i1) as m from vals group by grouping sets ((i1), (s1, i1), s1, ())
select i1, b1, s1, count(*) as n from vals group by i1, rollup(b1, s1)
select i1, s1, count(*) as n from vals group by i1, s1 with rollup
select i1, s1, count(*) as n from vals group by i1, s1 with cube
select i1, count(*) as n from vals group by rollup(i1) having i1 > 0
select count(*) as n from vals where r < 0 group by rollup(i1) having count(*) >= 0
select r, row_number() over (partition by {0} order by r) as n from vals | PLAIN
select r, row_number() over (order by {0}, r) as n from vals | PLAIN
select r, row_number() over (order by {0} desc, r) as n from vals | PLAIN
select r, row_number() over (order by {0} nulls last, r) as n from vals | PLAIN
select r, row_number() over (order by {0} desc nulls first, r) as n from vals | PLAIN
select r from vals order by i1, r limit 7
select r from vals order by r limit 5 offset 3
select r, i1 from vals qualify row_number() over (partition by i1 order by r) = 1
with a as (select r, i1 as x from vals) select a.r, x from a where x > 1
select q.x from (select i1 as x, r from vals) q where q.r < 9
select count(*) as n from few a join few b on a.{0} = b.{0} | PLAIN
select a.r, b.r as s from few a inner join few b on a.i1 = b.i2
select a.r, b.r as s from few a left join few b on a.i1 = b.i2 and b.r > 3
select a.r, b.r as s from few a right join few b on a.i1 = b.i2
select a.r, b.r as s from few a full join few b on a.i1 = b.i2
select a.r, b.r as s from few a left outer join few b on a.i1 = b.i2
select a.r, b.r as s from few a full outer join few b on a.i1 = b.i2
select a.r, b.r as s from few a cross join few b
select a.r, b.r as s from few a, few b where a.i1 = b.i2
select a.r from few a left semi join few b on a.i1 = b.i2
select a.r from few a left anti join few b on a.i1 = b.i2
select a.r from few a semi join few b on a.i1 = b.i2
select a.r from few a anti join few b on a.i1 = b.i2
select i1, a.r, b.r as s from few a join few b using (i1)
select i1, a.r, b.r as s from few a left join few b using (i1)
select i1, count(*) as n from few a full join few b using (i1) group by i1
select i1 from few a left semi join few b using (i1)
select i1 from few a left anti join few b using (i1)
select {0} as e from few union all select {0} from few | PLAIN
select {0} as e from few union select {0} from few | PLAIN
select {0} as e from few where r < 20 intersect select {0} from few | PLAIN
select {0} as e from few except select {0} from few where r < 10 | PLAIN
select {0} as e from few union all select {1} from few | int bigint double | int bigint double
select {0} as e from few union select {1} from few | int bigint double | int bigint double
select {0} as e from few union all select {1} from few | int decimal(12,3) | decimal(12,3) decimal(10,2)
select {0} as e from few intersect all select {0} from few where r < 10 | int
select {0} as e from few except all select {0} from few where r < 10 | int
select r, (select max(i2) from few) as m from few
select r, (select max(b.i2) from few b where b.i1 = a.i1) as m from few a
select r from few a where exists (select 1 from few b where b.i2 = a.i1 and b.r < 9)
select r from few a where not exists (select 1 from few b where b.i2 = a.i1 and b.r < 9)
select r from few where i1 in (select i2 from few where r < 9) |
select r from few where {0} in (select {1} from few where r < 5) | PLAIN | =
select r from few where i1 not in (select i2 from few where r < 5) |
select r, x from few lateral view explode(ai1) t as x
select r, x from few lateral view explode(as1) t as x
select a, b from (values (1, 'x'), (2, 'y')) as t(a, b)
select st1.a as a, few.st1.c as c from few
select *, 1 as one from few
select * except (r) from few
select f.*, 2 as two from few f
select 1 as one
"""


def _expanded(text: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        # A cast to decimal(12,3) has no bar; the template ends at the first one that stands alone.
        template, *gaps = (
            [part.strip() for part in line.split(" | ")] if " | " in line else [line.removesuffix("|").strip()]
        )
        wanted = [
            " ".join(_SETS.get(word, word) for word in gap.removesuffix("|").split()).split()
            for gap in gaps
            if gap.strip("| ")
        ]
        choices = [types if types != ["="] else [None] for types in wanted]
        for chosen in product(*choices):
            types = [each or chosen[0] for each in chosen]
            names = [column(type_, side) for side, type_ in enumerate(types) if type_]
            for operator in _OPERATORS if " OP " in template else ("",):
                text_ = template.replace(" OP ", f" {operator} ")
                for at, name in enumerate(names):
                    text_ = text_.replace(f"{{{at}}}", name)
                yield text_


def cases() -> Iterator[str]:
    """As queries, each once."""
    seen: dict[str, None] = {}
    for expression in _expanded(EXPRESSIONS):
        seen.setdefault(f"select r, {expression} as e from vals")
    for query in _expanded(QUERIES):
        seen.setdefault(query)
    for aggregate in _expanded(AGGREGATES):
        seen.setdefault(f"select i3, {aggregate} as e from tame group by i3")
        seen.setdefault(f"select {aggregate} as e from tame where r < 0")
    for function in _expanded(OVER):
        seen.setdefault(f"select r, {function} over (partition by i3 order by r) as e from tame")
    for function in _expanded(FRAMED):
        for window in WINDOWS:
            seen.setdefault(f"select r, {function} over ({window.replace('i1', 'i3')}) as e from tame")
    yield from seen
    yield "select r, sum(i2) over w as e from tame window w as (partition by i3 order by r)"
