-- Macros of our own. One that calls another stands after it. `error('22012:…')` carries the SQLSTATE before the colon.
-- mere_room and mere_load are functions of Python's: whether there is memory for so many bytes, and whether as many may
-- be read at once. Of a row of up to 1000 bytes they are not asked.

-- Memory. Long texts are not counted against DuckDB's before they are made. The check stands in the argument: DuckDB
-- computes what is constant beforehand, and would not wait for a condition around the call.

CREATE MACRO pg.room(n) AS coalesce(n, 0) <= 1000 OR mere_room(least(n, 1e18)::BIGINT);
CREATE MACRO pg.load(n) AS coalesce(n, 0) <= 1000 OR mere_load(n::BIGINT);

-- Texts in one: as many as there are, whatever their types.
CREATE MACRO pg.bytes(x) AS strlen(x::VARCHAR);

-- Numbers. Division by zero is NULL in DuckDB.

CREATE MACRO pg.divisor(b) AS CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END;
CREATE MACRO pg.mod(a, b) AS a % CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END;
CREATE MACRO pg.div(a, b) AS trunc(a / CASE WHEN b = 0 THEN error('22012:division by zero') ELSE b END);
CREATE MACRO pg.log(x) AS log10(x);
CREATE MACRO pg.sqrt(x) AS
    CASE WHEN x < 0 THEN error('2201F:cannot take square root of a negative number') ELSE sqrt(x) END;
CREATE MACRO pg.ln(x) AS
    CASE WHEN x = 0 THEN error('2201E:cannot take logarithm of zero')
         WHEN x < 0 THEN error('2201E:cannot take logarithm of a negative number')
         ELSE ln(x) END;
CREATE MACRO pg.truncated(x, n) AS trunc(x * power(10, n)) / power(10, n);
CREATE MACRO pg.to_hex(n) AS lower(to_hex(n));
CREATE MACRO pg.width_bucket(x, a, b, n) AS
    CASE WHEN x IS NULL OR a IS NULL OR b IS NULL OR n IS NULL THEN NULL
         WHEN n <= 0 THEN error('2201G:count must be greater than zero')
         WHEN a = b THEN error('2201G:lower bound cannot equal upper bound')
         WHEN (x < a) = (a < b) AND x <> a THEN 0
         WHEN (x >= b) = (a < b) OR x = b THEN n + 1
         ELSE floor((x - a) * n / (b - a)) + 1 END::INTEGER;

-- One more, and DuckDB falls over.
CREATE MACRO pg.row_offset(n) AS CASE WHEN n < -9223372036854775807 THEN -9223372036854775807 ELSE n END;

-- Values as Postgres writes them, where DuckDB would write them in another way.

CREATE MACRO pg.float_text(s) AS
    CASE WHEN s = 'nan' THEN 'NaN'
         WHEN s = 'inf' THEN 'Infinity'
         WHEN s = '-inf' THEN '-Infinity'
         WHEN regexp_full_match(s, '-?[0-9]{16}\.0')
         THEN regexp_replace(regexp_replace(s, '^(-?[0-9])([0-9]{15})\.0$', '\1.\2e+15'), '\.?0*e', 'e')
         ELSE regexp_replace(s, '\.0$', '') END;
CREATE MACRO pg.text(x) AS
    CASE WHEN typeof(x) IN ('DOUBLE', 'FLOAT') THEN pg.float_text(x::VARCHAR)
         WHEN typeof(x) = 'INTERVAL' THEN replace(replace(x::VARCHAR, 'months', 'mons'), 'month', 'mon')
         ELSE x::VARCHAR END;
CREATE MACRO pg.typeof(x) AS
    CASE split_part(typeof(x), '(', 1)
         WHEN 'INTEGER' THEN 'integer'
         WHEN 'BIGINT' THEN 'bigint'
         WHEN 'SMALLINT' THEN 'smallint'
         WHEN 'DOUBLE' THEN 'double precision'
         WHEN 'FLOAT' THEN 'real'
         WHEN 'DECIMAL' THEN 'numeric'
         WHEN 'HUGEINT' THEN 'numeric'
         WHEN 'VARCHAR' THEN 'text'
         WHEN 'BLOB' THEN 'bytea'
         WHEN 'TIMESTAMP' THEN 'timestamp without time zone'
         WHEN '"NULL"' THEN 'unknown'
         WHEN 'TIME' THEN 'time without time zone'
         ELSE lower(typeof(x)) END;

-- Texts

-- What it grows by: as often as the one text is in there, by how much the other one is longer.
CREATE MACRO pg.replace(s, a, b) AS
    replace(
        CASE WHEN pg.room(
                 (strlen(s) - strlen(replace(s, a, '')))::HUGEINT * greatest(strlen(b) - strlen(a), 0)
                 / greatest(strlen(a), 1)
             ) THEN s
             ELSE error('53200:the text would be too long') END,
        a, b
    );
CREATE MACRO pg.repeat(s, n) AS
    repeat(
        s,
        CASE WHEN pg.room(strlen(s) * n::HUGEINT) THEN greatest(n, 0)
             ELSE error('53200:the text would be too long') END::BIGINT
    );
-- The bytes of all rows count: where only the length were asked about, and it is the same for all, one row would.
CREATE MACRO pg.lpad(s, n, p) AS
    CASE WHEN p = '' THEN left(s, greatest(n, 0))
         ELSE lpad(
             s,
             CASE WHEN pg.room(strlen(s) + n * CASE WHEN strlen(p) = length(p) THEN 1 ELSE 4 END::HUGEINT)
                  THEN greatest(n, 0)
                  ELSE error('53200:the text would be too long') END::INTEGER,
             p
         ) END;
CREATE MACRO pg.rpad(s, n, p) AS
    CASE WHEN p = '' THEN left(s, greatest(n, 0))
         ELSE rpad(
             s,
             CASE WHEN pg.room(strlen(s) + n * CASE WHEN strlen(p) = length(p) THEN 1 ELSE 4 END::HUGEINT)
                  THEN greatest(n, 0)
                  ELSE error('53200:the text would be too long') END::INTEGER,
             p
         ) END;
CREATE MACRO pg.bit_length(s) AS strlen(s) * 8;
CREATE MACRO pg.initcap(s) AS
    list_aggregate(
        list_transform(
            regexp_extract_all(s, '[[:alnum:]À-ɏ]+|[^[:alnum:]À-ɏ]+'),
            lambda w: upper(w[1]) || lower(w[2:])
        ),
        'string_agg', ''
    );
CREATE MACRO pg.substring(s, f, n) AS
    CASE WHEN n < 0 THEN error('22011:negative substring length not allowed')
         ELSE substring(s, greatest(f, 1), greatest(f + n - greatest(f, 1), 0)) END;
CREATE MACRO pg.quote_ident(s) AS
    CASE WHEN regexp_full_match(s, '[a-z_][a-z0-9_$]*')
              AND s NOT IN (SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved')
         THEN s
         ELSE '"' || pg.replace(s, '"', '""') || '"' END;
CREATE MACRO pg.quote_literal(s) AS '''' || pg.replace(s::VARCHAR, '''', '''''') || '''';
CREATE MACRO pg.quote_nullable(s) AS coalesce('''' || pg.replace(s::VARCHAR, '''', '''''') || '''', 'NULL');

-- Patterns

-- With each match it may have the text before and what is put in its place, and that the text itself some times.
CREATE MACRO pg.regexp_replace(s, p, r, f) AS
    regexp_replace(
        CASE WHEN pg.room(
                 (strlen(s) + 1)::HUGEINT * strlen(r) * CASE WHEN contains(r, chr(92)) THEN strlen(s) + 1 ELSE 1 END
             ) THEN s
             ELSE error('53200:the text would be too long') END,
        p, r, f
    );

-- A regular expression that is not known beforehand. Each repetition makes it as many times as large.
CREATE MACRO pg.pattern(p) AS
    CASE WHEN strlen(p) > 300 OR regexp_matches(p, '\{[0-9,]*[0-9]{3}')
         THEN error('54001:the regular expression is too complex')
         ELSE p END;

-- DuckDB tries all ways in which several % can match, one after another: of long texts there are too many.
CREATE MACRO pg.like_pattern(p) AS
    coalesce(
        list_aggregate(
            list_transform(
                regexp_extract_all(p, '\\.|[^\\]', 0, 's'),
                lambda t: CASE t WHEN '%' THEN '.*' WHEN '_' THEN '.' ELSE regexp_escape(right(t, 1)) END
            ),
            'string_agg', ''
        ),
        ''
    );
CREATE MACRO pg.like(s, p) AS
    CASE WHEN p IS NULL THEN NULL
         WHEN strlen(s) <= 300 AND strlen(p) - strlen(replace(p, '%', '')) <= 2 THEN s LIKE p ESCAPE '\'
         ELSE regexp_full_match(s, pg.like_pattern(p), 's') END;

-- Of a pattern with another escape character, by a regular expression of its pieces.
CREATE MACRO pg.with_backslashes(p, e) AS
    CASE WHEN p IS NOT NULL
         THEN coalesce(
             list_aggregate(
                 list_transform(
                     regexp_extract_all(p, e, 0, 's'),
                     lambda t: CASE WHEN len(t) = 2 THEN chr(92) || right(t, 1)
                                    WHEN t = chr(92) THEN chr(92) || chr(92)
                                    ELSE t END
                 ),
                 'string_agg', ''
             ),
             ''
         ) END;

-- Bytes as encode(…, 'escape') writes them, a piece for each, and back.
CREATE MACRO pg.escaped_byte(h) AS
    CASE WHEN h = '5C' THEN '\\'
         WHEN h = '00' OR h >= '80'
         THEN '\' || (('0x' || h)::INTEGER // 64) || (('0x' || h)::INTEGER // 8 % 8) || (('0x' || h)::INTEGER % 8)
         ELSE chr(('0x' || h)::INTEGER) END;
CREATE MACRO pg.escaped(b) AS
    coalesce(
        list_aggregate(
            list_transform(
                regexp_extract_all(
                    hex(CASE WHEN pg.room(octet_length(b::BLOB) * 96) THEN b::BLOB
                             ELSE error('53200:the text would be too long') END),
                    '..'
                ),
                lambda h: pg.escaped_byte(h)
            ),
            'string_agg', ''
        ),
        left(hex(b::BLOB), 0)
    );
CREATE MACRO pg.unescaped_piece(p) AS
    CASE WHEN p = '\\' THEN '5C'
         WHEN p = '\' THEN error('22P02:invalid input syntax for type bytea')
         WHEN starts_with(p, '\')
         THEN lpad(to_hex(p[2]::INTEGER * 64 + p[3]::INTEGER * 8 + p[4]::INTEGER), 2, '0')
         ELSE hex(p) END;
CREATE MACRO pg.unescaped(t) AS
    unhex(
        coalesce(
            list_aggregate(
                list_transform(
                    regexp_extract_all(
                        CASE WHEN pg.room(strlen(t) * 96) THEN t
                             ELSE error('53200:the text would be too long') END,
                        '\\[0-3][0-7]{2}|\\\\|\\|[^\\]+'
                    ),
                    lambda p: pg.unescaped_piece(p)
                ),
                'string_agg', ''
            ),
            left(t, 0)
        )
    );

-- Names as SQL has them: gold.orders, gold."My Table". Of a schema that is not named, NULL.
CREATE MACRO pg.identifiers(t) AS
    list_transform(
        regexp_extract_all(t, '"(?:[^"]|"")*"|[^".\s]+'),
        lambda e: CASE WHEN starts_with(e, '"') THEN replace(e[2:-2], '""', '"') ELSE lower(e) END
    );
CREATE MACRO pg.identifier_name(t) AS coalesce(pg.identifiers(t)[-1], t);
CREATE MACRO pg.identifier_schema(t) AS pg.identifiers(t)[-2];

-- A type's name, as `spelling` of catalog/types.py writes it.
CREATE MACRO pg.type_spelling(t) AS
    regexp_replace(
        regexp_replace(
            regexp_replace(
                regexp_replace(
                    regexp_replace(trim(CASE WHEN contains(t, '"') THEN t ELSE lower(t) END), '\s+', ' ', 'g'),
                    '^float ?\( ?(1?[0-9]|2[0-4]) ?\)', 'real'
                ),
                '\s*\([^)]*\)', '', 'g'
            ),
            '^pg_catalog\.', ''
        ),
        '(\s*\[[0-9]*\])+$| array$', '[]'
    );
-- A number instead of a name.
CREATE MACRO pg.oid_number(t) AS CASE WHEN regexp_full_match(t, '[0-9]{1,10}') THEN TRY_CAST(t AS BIGINT) END;

-- Arrays

-- A list grows by being copied to twice its size: up to 48 bytes for a text in it, before its letters.
CREATE MACRO pg.pieces(s, d) AS (strlen(s) - strlen(replace(s, d, ''))) // greatest(strlen(d), 1) + 1;
CREATE MACRO pg.string_to_array(s, d) AS
    CASE WHEN s = '' THEN []::VARCHAR[]
         WHEN d = '' THEN [s]
         ELSE string_split(
             CASE WHEN pg.room(pg.pieces(s, d) * 48::HUGEINT) THEN s
                  ELSE error('53200:the array would be too long') END,
             d
         ) END;
CREATE MACRO pg.string_to_array_null(s, d, n) AS list_transform(pg.string_to_array(s, d), lambda e: nullif(e, n));
CREATE MACRO pg.array_to_string(a, d) AS
    CASE WHEN a IS NULL THEN NULL
         WHEN NOT pg.room(len(a) * (strlen(d) + 48)::HUGEINT) THEN error('53200:the text would be too long')
         WHEN len(list_filter(a, lambda e: e IS NOT NULL)) = 0 THEN ''
         ELSE array_to_string(list_transform(list_filter(a, lambda e: e IS NOT NULL), lambda e: pg.text(e)), d) END;
CREATE MACRO pg.array_to_string_null(a, d, n) AS
    CASE WHEN a IS NULL THEN NULL
         WHEN len(a) = 0 THEN ''
         WHEN NOT pg.room(len(a) * (strlen(d) + strlen(n) + 48)::HUGEINT)
         THEN error('53200:the text would be too long')
         ELSE array_to_string(list_transform(a, lambda e: coalesce(pg.text(e), n)), d) END;
CREATE MACRO pg.array_length(a, n) AS CASE WHEN n = 1 THEN nullif(len(a), 0)::INTEGER END;
CREATE MACRO pg.array_upper(a, n) AS CASE WHEN n = 1 THEN nullif(len(a), 0)::INTEGER END;
CREATE MACRO pg.array_lower(a, n) AS CASE WHEN n = 1 AND len(a) > 0 THEN 1 END;
CREATE MACRO pg.array_ndims(a) AS
    CASE WHEN len(a) > 0 THEN len(regexp_extract(typeof(a), '(\[\])*$')) // 2 END::INTEGER;

-- A list that many rows share is read, or copied, once for each of them: thousands at once, and nobody can interrupt
-- that. So it is asked before how much that would be: of its elements, and of the letters in them. `n`: the bytes of
-- what else the function is given, which may differ from row to row.
CREATE MACRO pg.span(a) AS coalesce(len(a), 0)::BIGINT * 32;
CREATE MACRO pg.letters(a) AS
    CASE WHEN regexp_matches(typeof(a), '^(VARCHAR|JSON|BLOB|STRUCT|MAP)|\]\[')
         THEN coalesce(list_sum(list_transform(a, lambda e: strlen(e::VARCHAR))), 0)::BIGINT
         ELSE 0 END;
CREATE MACRO pg.is_read(a, n) AS
    CASE WHEN pg.span(a) > 1000 AND NOT pg.load(pg.span(a) + n) THEN false
         WHEN pg.letters(a) > 1000 AND NOT pg.load(pg.letters(a) + n) THEN false
         ELSE true END;
CREATE MACRO pg.list(a, v) AS
    CASE WHEN pg.is_read(a, coalesce(pg.bytes(v), 0)) THEN a
         ELSE error('53200:the arrays of all rows that are computed at once would be too long') END;
CREATE MACRO pg.lists(a, b) AS
    CASE WHEN pg.is_read(a, pg.span(b)) AND pg.is_read(b, pg.span(a)) THEN a
         ELSE error('53200:the arrays of all rows that are computed at once would be too long') END;

CREATE MACRO pg.array_contains(a, b) AS list_has_all(pg.lists(a, b), b);
CREATE MACRO pg.array_overlaps(a, b) AS list_has_any(pg.lists(a, b), b);
CREATE MACRO pg.array_cat(a, b) AS list_concat(pg.lists(a, b), b);
CREATE MACRO pg.array_append(a, v) AS list_append(pg.list(a, v), v);
CREATE MACRO pg.array_prepend(v, a) AS list_prepend(v, pg.list(a, v));
CREATE MACRO pg.array_position(a, v) AS list_position(pg.list(a, v), v);
CREATE MACRO pg.array_remove(a, v) AS list_filter(pg.list(a, v), lambda e: e IS DISTINCT FROM v);
CREATE MACRO pg.array_replace(a, v, w) AS
    list_transform(pg.list(a, v), lambda e: CASE WHEN e IS NOT DISTINCT FROM v THEN w ELSE e END);
CREATE MACRO pg.array_positions(a, v) AS
    list_filter(
        list_transform(pg.list(a, v), lambda e, i: CASE WHEN e IS NOT DISTINCT FROM v THEN i END),
        lambda i: i IS NOT NULL
    )::INTEGER[];

-- v = ANY(a). What is not found among NULLs may still be there.
CREATE MACRO pg.equals_any(v, a) AS
    CASE WHEN a IS NULL THEN NULL
         WHEN len(pg.list(a, v)) = 0 THEN false
         WHEN v IS NULL THEN NULL
         WHEN list_contains(a, v) THEN true
         WHEN len(list_filter(a, lambda e: e IS NULL)) > 0 THEN NULL
         ELSE false END;

-- Rows of arrays: a list of results may have rows of its own only where DuckDB's own UNNEST makes them.

CREATE MACRO pg.expandarray(a) AS unnest(list_transform(a, lambda x, i: {'x': x, 'n': i::INTEGER}));
CREATE MACRO pg.subscripts(a, first) AS unnest(range(first, first + len(a))::INTEGER[]);

-- Series. One that is a list is made at once, and not counted either: eight bytes an element.

CREATE MACRO pg.series(a, b, step) AS
    generate_series(
        a::BIGINT,
        CASE WHEN NOT pg.room(abs(b::HUGEINT - a::HUGEINT) / greatest(abs(step), 1) * 8)
             THEN error('53400:the series has too many elements')
             ELSE b END::BIGINT,
        CASE WHEN step = 0 THEN error('22023:step size cannot equal zero') ELSE step END::BIGINT
    );
CREATE MACRO pg.series_of_times(a, b, step) AS
    generate_series(
        a,
        CASE WHEN NOT pg.room(abs(epoch(b) - epoch(a)) * 8 / greatest(abs(epoch(step)), 0.000001))
             THEN error('53400:the series has too many elements')
             ELSE b END,
        step
    );

-- Times

CREATE MACRO pg.date_trunc(p, t) AS
    CASE WHEN typeof(t) = 'DATE' THEN date_trunc(p, t::TIMESTAMP) ELSE date_trunc(p, t) END;
CREATE MACRO pg.age_between(a, b) AS age(a::TIMESTAMP, b::TIMESTAMP);
CREATE MACRO pg.age_now(b) AS age(current_date::TIMESTAMP, b::TIMESTAMP);
CREATE MACRO pg.epoch(t) AS epoch_us(t) * 0.000001;

-- JSON

CREATE MACRO pg.json_typeof(j) AS
    CASE json_type(j)
         WHEN 'OBJECT' THEN 'object'
         WHEN 'ARRAY' THEN 'array'
         WHEN 'VARCHAR' THEN 'string'
         WHEN 'BOOLEAN' THEN 'boolean'
         WHEN 'NULL' THEN 'null'
         WHEN NULL THEN NULL
         ELSE 'number' END;
CREATE MACRO pg.jsonb_typeof(j) AS pg.json_typeof(j);

-- to_char of a number, of which the digits are there already.

CREATE MACRO pg.grouped(i) AS reverse(rtrim(regexp_replace(reverse(i), '([0-9]{3})', '\1,', 'g'), ','));
CREATE MACRO pg.filled(s, fill, width) AS CASE WHEN fill THEN lpad(s, width, ' ') ELSE s END;
CREATE MACRO pg.whole_text(i, z, p) AS
    CASE WHEN z = 0 AND p > 0 AND i = '0' THEN '' ELSE lpad(i, greatest(len(i), z)::INTEGER, '0') END;
CREATE MACRO pg.fraction_text(f, o, fill) AS
    CASE WHEN fill THEN f ELSE left(f, o) || rtrim(substring(f, o + 1), '0') END;
CREATE MACRO pg.number_text(s, negative, w, p, z, o, g, fill, width, point) AS
    CASE WHEN s IS NULL THEN NULL
         WHEN len(split_part(s, '.', 1)) > w AND split_part(s, '.', 1) <> '0'
         THEN CASE WHEN fill THEN ' ' ELSE '' END
              || repeat('#', w)
              || CASE WHEN point THEN '.' || repeat('#', p) ELSE '' END
         ELSE pg.filled(
             CASE WHEN negative AND regexp_matches(s, '[1-9]') THEN '-' ELSE '' END
             || CASE WHEN g THEN pg.grouped(pg.whole_text(split_part(s, '.', 1), z, p))
                     ELSE pg.whole_text(split_part(s, '.', 1), z, p) END
             || CASE WHEN point THEN '.' || pg.fraction_text(split_part(s, '.', 2), o, fill) ELSE '' END,
             fill, width
         ) END;
