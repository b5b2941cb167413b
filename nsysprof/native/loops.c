/* The loops of nsysprof that Python is too slow for. hatch_build.py compiles this file.

   Numbers of a file are not trusted: nothing is read outside the arrays whatever the bytes are, and -1 means that SQLite
   must read the table. All integers have 64 bits and wrap around. Nothing here depends on the processor. */

typedef unsigned char u8;
typedef short i16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;

/* load.py looks for this name; see _VERSION there. */
const i64 version_6 = 6;

#define NONE ((i64)0x8000000000000000ull) /* NULL */
#define MOST ((i64)0x7fffffffffffffffull)
#define LEAF 13
/* How many slots of the hash table a tuple may try. At most a quarter of them are taken, so a few tries are usual. Only
   a file made for this purpose has many tuples with one hash. */
#define MOST_PROBES 200

/* Bytes of each serial type below 12; 10 and 11 are reserved. */
static const i64 SIZES[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1};

/* Read a number of variable length and move `at` behind it. The buffer has nine bytes from there. */
static i64 varint(const u8 *buffer, i64 *at) {
    u64 value = 0;
    for (int i = 0; i < 8; i++) {
        u64 byte = buffer[(*at)++];
        value = value << 7 | (byte & 0x7f);
        if (byte < 0x80)
            return (i64)value;
    }
    return (i64)(value << 8 | buffer[(*at)++]);
}

/* Return the value of a serial type as SQLite casts it to an integer; text and blobs become NULL. */
static i64 number(const u8 *at, i64 serial) {
    if (serial == 8 || serial == 9) /* the constants 0 and 1 */
        return serial - 8;
    if (serial == 0 || serial >= 12)
        return NONE;
    u64 value = at[0] >= 128 ? at[0] - 256ull : at[0];
    for (i64 i = 1; i < SIZES[serial]; i++)
        value = value << 8 | at[i];
    if (serial == 7) {
        union {
            u64 bits;
            double real;
        } both = {value};
        if (both.real >= 9.223372036854775807e18)
            return MOST;
        if (both.real > -9.223372036854775808e18)
            return (i64)both.real;
        return NONE; /* as SQLite's cast gives it; SQLite stores no NaN */
    }
    return (i64)value;
}

/* A leaf page: where it lies, where its cells may begin, how many they are, and the rowid of the one before. */
typedef struct {
    i64 base, end, first, cells, last;
    int is_first;
} leaf;

/* A row: where its header, the first type in it and its values begin, and where it ends. */
typedef struct {
    i64 key, header, types, values, stop;
} cell;

/* Read what a page says of itself; return 0 for a page that holds no rows as SQLite writes them. */
static inline int begin_leaf(const u8 *buffer, i64 base, i64 usable, i64 above, i64 is_only, leaf *page) {
    i64 cells = (i64)buffer[base + 3] << 8 | buffer[base + 4];
    *page = (leaf){base, base + usable, base + 8 + 2 * cells, cells, above, above == NONE};
    return buffer[base] == LEAF && page->first <= page->end && (cells || is_only);
}

/* Read where the row of a cell lies; return 0 where it is damaged, or continued on an overflow page. */
static inline int find_row(const u8 *buffer, leaf *page, i64 number, i64 at_most, cell *row) {
    i64 pointer = page->base + 8 + 2 * number, at = page->base + ((i64)buffer[pointer] << 8 | buffer[pointer + 1]);
    if (at < page->first || at >= page->end)
        return 0;
    i64 begin = at, size = varint(buffer, &at);
    /* SQLite reads nine bytes of a size differently; no page needs more than three. */
    if (at > begin + 3 || size < 1 || size > page->end - page->base - 35)
        return 0;
    row->key = varint(buffer, &at);
    row->stop = at + size;
    if (row->stop > page->end || (row->key <= page->last && !page->is_first) || row->key > at_most)
        return 0;
    page->last = row->key;
    page->is_first = 0;
    row->header = row->types = at;
    i64 bytes = varint(buffer, &row->types);
    row->values = at + bytes;
    return bytes >= 1 && bytes <= size;
}

/* Read the type of the value at `at` and move behind it. Return how many bytes the value takes, or -1: the row is older
   than the column, the type is none, or there is no `room`. */
static inline i64 next_type(const u8 *buffer, i64 *at, i64 stop, i64 room, i64 *serial) {
    *serial = *at < stop ? varint(buffer, at) : -1;
    if (*serial < 0)
        return -1;
    i64 length = *serial < 12 ? SIZES[*serial] : (*serial - 12) >> 1;
    return length > room ? -1 : length;
}

/* Read the rows of `pages` leaf pages into `out` (width, capacity); return their number, or -1.

   wanted: for each column of the table up to the last needed one, its row in `out`, or -1. The last row of `out` takes
   the rowids. above, at_most: for each page, the bounds of its rowids according to the pages that refer to it.
   is_only: whether the table is one page, which may be empty. */
i64 decode(const u8 *buffer, i64 pages, i64 page_size, i64 usable, const i64 *wanted, i64 columns, const i64 *above,
           const i64 *at_most, i64 is_only, i64 *out, i64 width, i64 capacity) {
    i64 count = 0;
    for (i64 page = 0; page < pages; page++) {
        leaf its;
        if (!begin_leaf(buffer, page * page_size, usable, above[page], is_only, &its) || count + its.cells > capacity)
            return -1;
        for (i64 number_of = 0; number_of < its.cells; number_of++) {
            cell row;
            if (!find_row(buffer, &its, number_of, at_most[page], &row))
                return -1;
            i64 type = row.types, body = row.values, serial;
            for (i64 column = 0; column < columns; column++) {
                i64 length = next_type(buffer, &type, row.values, row.stop - body, &serial);
                if (length < 0)
                    return -1;
                if (wanted[column] >= 0)
                    out[wanted[column] * capacity + count] = number(buffer + body, serial);
                body += length;
            }
            /* SQLite checks this too: a header that ends here belongs to a row that ends here. */
            if (type > row.values || (type == row.values && body != row.stop))
                return -1;
            out[(width - 1) * capacity + count++] = row.key;
        }
    }
    return count;
}

static int is_same(const i64 *rows, i64 row, const i64 *values, i64 width, i64 count, i64 at) {
    for (i64 j = 0; j < width; j++)
        if (rows[row * width + j] != values[j * count + at])
            return 0;
    return 1;
}

/* Return the row in `rows` (capacity, width) of column `at` of `values` (width, count), which may be new; -1 where `rows`
   is full, -2 when too many have one hash.

   slots: an open-addressing hash table of row numbers (-1: free) of mask + 1 slots, a power of two. used: how many rows
   are used; it is changed. */
static inline i64 code_of(const i64 *values, i64 width, i64 count, i64 at, i64 *slots, i64 mask, i64 *rows, i64 capacity,
                   i64 *used) {
    u64 mixed = 0;
    for (i64 j = 0; j < width; j++) {
        mixed = (mixed ^ (u64)values[j * count + at]) * 0x9E3779B97F4A7C15ull;
        mixed ^= mixed >> 32;
    }
    i64 slot = (i64)(mixed & (u64)mask);
    for (i64 probes = 0; probes <= MOST_PROBES; probes++) {
        i64 row = slots[slot];
        if (row < 0) {
            if (*used == capacity)
                return -1;
            for (i64 j = 0; j < width; j++)
                rows[*used * width + j] = values[j * count + at];
            slots[slot] = *used;
            return (*used)++;
        }
        if (is_same(rows, row, values, width, count, at))
            return row;
        slot = (slot + 1) & mask;
    }
    return -2;
}

/* Code each column of `values` from `begin` on by its row in `rows`, as code_of does. Return the columns done: fewer than
   `count` when `rows` is full, -1 when too many tuples have one hash. */
i64 encode(const i64 *values, i64 width, i64 count, i64 begin, i64 *slots, i64 mask, i64 *rows, i64 capacity, i64 *used,
           i64 *codes) {
    i64 last = -1;
    for (i64 i = begin; i < count; i++) {
        if (last < 0 || !is_same(rows, last, values, width, count, i))
            last = code_of(values, width, count, i, slots, mask, rows, capacity, used);
        if (last < 0)
            return last == -1 ? i : -1;
        codes[i] = last;
    }
    return count;
}

/* Write a number of 64 bits where the array is wide, or of 32 without a sign. */
static inline void put(u8 *values, int wide, i64 place, i64 value) {
    if (wide)
        ((i64 *)values)[place] = value;
    else
        ((u32 *)values)[place] = (u32)value;
}

/* --- Reading a trace: kernels and calls, from leaf pages into their final columns. --- */

/* What a row holds, in the order of `values`: both begin with start, end and correlation id. A kernel goes on with pid,
   device, context, stream, name, short name and graph node; a call with name, thread, return value and event class. */
#define ROLES 10
/* Rows have few different headers, so what a header says is kept: its bytes, what all its values take, whether a row ends
   there, the words of the header, and for each role the place and the type of its value. */
#define HEADER_WORDS 8
#define ENTRY (3 + HEADER_WORDS + ROLES)
#define ENTRIES 64 /* a power of two; one more entry is for headers that are too long to be kept */
#define OF_NULL 64
#define OF_ZERO 65
#define OF_ONE 66
#define OF_REAL 67
/* The kind of calls, the class of calls that are repeated with their backtrace, and limits as in work.py. */
#define CALLS -1
#define BACKTRACE 67
#define FAR_NS ((i64)1 << 60)
#define LONG_NS ((i64)1 << 50)
/* Why a page was not read, as in event_pages.py. */
#define FULL_TUPLES 1
#define WIDE_DURATION 2
#define WIDE_CODE 3
#define COLLISIONS 4

/* Return the eight bytes from `at` on as a number, the first one on top. */
static u64 eight(const u8 *at) {
    return (u64)at[0] << 56 | (u64)at[1] << 48 | (u64)at[2] << 40 | (u64)at[3] << 32 | (u64)at[4] << 24 |
           (u64)at[5] << 16 | (u64)at[6] << 8 | (u64)at[7];
}

/* Read the header of a row from `kind` to `stop` into an entry; return -1 where SQLite must read the table. */
static i64 read_header(const u8 *buffer, i64 kind, i64 stop, i64 usable, const i64 *wanted, i64 columns, i64 *entry) {
    i64 offset = 0, *of_role = entry + 3 + HEADER_WORDS;
    for (i64 role = 0; role < ROLES; role++)
        of_role[role] = OF_NULL;
    entry[0] = 0;
    for (i64 column = 0; column < columns; column++) {
        i64 serial, length = next_type(buffer, &kind, stop, usable - offset, &serial);
        if (length < 0)
            return -1;
        if (wanted[column] >= 0) {
            i64 type = serial == 0 || serial >= 12 ? OF_NULL
                       : serial == 8               ? OF_ZERO
                       : serial == 9               ? OF_ONE
                       : serial == 7               ? OF_REAL
                                                   : 64 - 8 * length;
            of_role[wanted[column]] = offset << 8 | type;
        }
        offset += length;
    }
    if (kind > stop)
        return -1;
    entry[1] = offset;
    entry[2] = kind == stop;
    return 0;
}

/* Return a word of a header of `bytes` bytes; what lies behind the header is zero. */
static inline u64 word_of(const u8 *header, i64 word, i64 bytes) {
    i64 behind = 8 * (word + 1) - bytes;
    return eight(header + 8 * word) & ~0ull << (behind > 0 ? behind << 3 : 0);
}

/* Return the entry of a header of `bytes` bytes, or 0. kind: where its first serial type is. begin: where it begins. */
static i64 *find_header(const u8 *buffer, i64 begin, i64 kind, i64 bytes, i64 usable, const i64 *wanted, i64 columns,
                        i64 *headers) {
    i64 words = (bytes + 7) >> 3;
    if (words > HEADER_WORDS) {
        i64 *entry = headers + ENTRIES * ENTRY;
        return read_header(buffer, kind, begin + bytes, usable, wanted, columns, entry) < 0 ? (i64 *)0 : entry;
    }
    u64 mixed = (u64)bytes;
    for (i64 word = 0; word < words; word++)
        mixed = (mixed ^ word_of(buffer + begin, word, bytes)) * 0x9E3779B97F4A7C15ull;
    i64 *entry = headers + (i64)(mixed >> 58) * ENTRY;
    int is_known = entry[0] == bytes;
    for (i64 word = 0; is_known && word < words; word++)
        is_known = (u64)entry[3 + word] == word_of(buffer + begin, word, bytes);
    if (is_known)
        return entry;
    if (read_header(buffer, kind, begin + bytes, usable, wanted, columns, entry) < 0)
        return 0;
    entry[0] = bytes;
    for (i64 word = 0; word < words; word++)
        entry[3 + word] = (i64)word_of(buffer + begin, word, bytes);
    return entry;
}

/* Read the rows of `pages` leaf pages as the general reader does (decode, possible_times and so on, encode), but each
   value goes straight into its column. Return the pages read: fewer where state[4] says why, or -1.

   The first arguments are those of decode; wanted: for each column of the table its role, or -1. kind: that of the work,
   or CALLS. durations have 32 bits, or 64 where is_wide. code_bytes: of each code: 1, 2 (with
   a sign) or 4. capacity: of
   each of these columns. nodes: takes the graph nodes. headers: what is known of headers; begins with zeros. values: room for
   one row and one tuple. state: rows, nodes, tuples, dropped rows, reason. */
i64 read_events(const u8 *buffer, i64 pages, i64 page_size, i64 usable, const i64 *wanted, i64 columns,
                const i64 *above, const i64 *at_most, i64 is_only, i64 kind, i64 is_wide, i64 code_bytes, i64 *starts,
                u8 *durations, u8 *ids, u8 *codes, i64 capacity, i64 *nodes, i64 node_capacity, i64 *slots, i64 mask, i64 *tuples,
                i64 tuple_capacity, i64 *headers, i64 *values, i64 *state) {
    i64 *tuple = values + ROLES, width = kind == CALLS ? 3 : 8, last_code = -1;
    for (i64 page = 0; page < pages; page++) {
        i64 row = state[0], node = state[1], dropped = state[3];
        leaf its;
        if (!begin_leaf(buffer, page * page_size, usable, above[page], is_only, &its) || row + its.cells > capacity ||
            node + its.cells > node_capacity)
            return -1;
        for (i64 number_of = 0; number_of < its.cells; number_of++) {
            cell at;
            if (!find_row(buffer, &its, number_of, at_most[page], &at))
                return -1;
            const i64 *entry =
                find_header(buffer, at.header, at.types, at.values - at.header, usable, wanted, columns, headers);
            i64 body = at.values, bytes = at.stop - body;
            if (!entry || entry[1] > bytes || (entry[2] && entry[1] != bytes))
                return -1;
            for (i64 role = 0; role < ROLES; role++) {
                i64 place = entry[3 + HEADER_WORDS + role], type = place & 255;
                const u8 *from = buffer + body + (place >> 8);
                if (type < 64)
                    values[role] = (i64)eight(from) >> type;
                else
                    values[role] = type == OF_NULL ? NONE : type == OF_REAL ? number(from, 7) : type - OF_ZERO;
            }
            i64 start = values[0], finish = values[1], id = values[2], duration = finish - start;
            if (duration < 0 || duration >= LONG_NS || start <= -FAR_NS || start >= FAR_NS || finish >= FAR_NS ||
                (start | finish) == 0) {
                dropped++;
                continue;
            }
            if (kind == CALLS) {
                if (values[6] == BACKTRACE)
                    continue;
                tuple[0] = values[3];
                tuple[1] = values[4];
                tuple[2] = values[5] != 0 && values[5] != NONE;
            } else {
                tuple[0] = kind;
                for (i64 j = 0; j < 4; j++)
                    tuple[1 + j] = values[3 + j];
                tuple[5] = values[7] != NONE ? values[7] : values[8];
                tuple[6] = values[8];
                tuple[7] = values[9] > 0;
                if (values[9] > 0)
                    nodes[node++] = values[9];
            }
            if (last_code < 0 || !is_same(tuples, last_code, tuple, width, 1, 0)) {
                last_code = code_of(tuple, width, 1, 0, slots, mask, tuples, tuple_capacity, &state[2]);
                if (last_code < 0) {
                    state[4] = last_code == -1 ? FULL_TUPLES : COLLISIONS;
                    return page;
                }
            }
            if (!is_wide && duration >> 32) {
                state[4] = WIDE_DURATION;
                return page;
            }
            put(durations, (int)is_wide, row, duration);
            if (last_code > (code_bytes == 1 ? 0xff : code_bytes == 2 ? 0x7fff : 0x7fffffff)) {
                state[4] = WIDE_CODE;
                return page;
            }
            if (code_bytes == 1)
                codes[row] = (u8)last_code;
            else if (code_bytes == 2)
                ((i16 *)codes)[row] = (i16)last_code;
            else
                ((i32 *)codes)[row] = (i32)last_code;
            ((u32 *)ids)[row] = (u64)id >> 32 ? 0 : (u32)id;
            starts[row++] = start;
        }
        state[0] = row;
        state[1] = node;
        state[3] = dropped;
    }
    return pages;
}

static inline i64 later(i64 one, i64 other) {
    return one > other ? one : other;
}

/* Do what _run in nsysprof/analysis/replay/replay.py does. */
i64 replay(i64 calls, const i64 *follows, const i64 *also_after, const i64 *gap, const i64 *cost, const i64 *waits_for,
           const i64 *returns, const i64 *first_work, const i64 *stream, const i64 *issue, const i64 *after_stream,
           const i64 *after_other, const i64 *other, const i64 *duration, i64 *free, i64 first_calls, i64 *ended,
           i64 *finished) {
    i64 last = 0, since = 0;
    for (i64 call = 0; call < calls; call++) {
        if (call == first_calls)
            since = last;
        i64 before = follows[call];
        i64 begin = before < 0 ? gap[call] : ended[before] + gap[call];
        before = also_after[call];
        if (before >= 0 && ended[before] > begin)
            begin = ended[before];
        i64 end = begin + cost[call];
        for (i64 work = first_work[call]; work < first_work[call + 1]; work++) {
            i64 start = later(begin + issue[work], free[stream[work]] + after_stream[work]);
            if (other[work] >= 0)
                start = later(start, finished[other[work]] + after_other[work]);
            finished[work] = free[stream[work]] = start + duration[work];
            last = later(last, start + duration[work]);
        }
        if (waits_for[call] >= 0)
            end = later(end, finished[waits_for[call]] + returns[call]);
        ended[call] = end;
        last = later(last, end);
    }
    return last - since;
}

/* --- Statistics of durations, for nsysprof/analysis --------------------------------------------------------------- */

/* An array of numpy. kind: how many bytes a number has (1, 2, 4, 8); 5 for 32 bits without a sign. */
typedef struct {
    const u8 *at;
    i64 length, kind;
} numbers;

static inline i64 item(numbers of, i64 place) {
    switch (of.kind) {
    case 1:
        return of.at[place];
    case 2:
        return ((const short *)of.at)[place];
    case 4:
        return ((const i32 *)of.at)[place];
    case 5:
        return ((const u32 *)of.at)[place];
    default:
        return ((const i64 *)of.at)[place];
    }
}

/* Return the name of a place: which row it is, which code the row has, and which name the code has; -1 where the arrays
   do not fit each other, and LEFT_OUT for a code without a name (-1). */
#define LEFT_OUT -2
static inline i64 name_at(i64 place, numbers rows, numbers code, const i64 *name_of, i64 codes, i64 names) {
    i64 row = rows.length ? item(rows, place) : place;
    if ((u64)row >= (u64)code.length)
        return -1;
    i64 key = item(code, row);
    if ((u64)key >= (u64)codes)
        return -1;
    key = name_of[key];
    if (key == -1)
        return LEFT_OUT;
    return (u64)key < (u64)names ? key : -1;
}

#define BINS 2048
/* This few numbers are sorted. */
#define FEW 24
#define STATISTICS 10

static inline i64 get(const u8 *values, int wide, i64 place) {
    return wide ? ((const i64 *)values)[place] : (i64)((const u32 *)values)[place];
}

static inline void sort_few(u8 *values, int wide, i64 count) {
    for (i64 i = 1; i < count; i++) {
        i64 value = get(values, wide, i), at = i;
        for (; at > 0 && get(values, wide, at - 1) > value; at--)
            put(values, wide, at, get(values, wide, at - 1));
        put(values, wide, at, value);
    }
}

/* Write the two numbers in the middle of `values` in order (the same one twice where their count is odd).

   Each round counts how many numbers share their upper bits, and keeps those that share them with the middle one: as
   long as rounds take, whatever the numbers are. What is in `values` is lost. */
static inline void find_middle(u8 *values, int wide, i64 count, i64 least, i64 most, i64 *bins, i64 *middle) {
    i64 rank = (count - 1) / 2, even = count % 2 == 0, above = most;
    if (count <= FEW) {
        sort_few(values, wide, count);
        middle[0] = get(values, wide, rank);
        middle[1] = get(values, wide, count / 2);
        return;
    }
    i64 bits = 0, step = count < BINS ? 7 : 11;
    while (bits < 64 && ((u64)most - (u64)least) >> bits)
        bits++;
    for (;;) {
        i64 shift = bits > step ? bits - step : 0, bin = 0, kept = 0;
        for (i64 i = 0; i < (1ll << step); i++)
            bins[i] = 0;
        for (i64 i = 0; i < count; i++)
            bins[((u64)get(values, wide, i) - (u64)least) >> shift]++;
        while (rank >= bins[bin])
            rank -= bins[bin++];
        if (!shift) {
            for (i64 i = 0; i < count && even; i++) {
                i64 value = get(values, wide, i);
                if (value > least + bin && value < above)
                    above = value;
            }
            middle[0] = least + bin;
            middle[1] = even && rank + 1 == bins[bin] ? above : least + bin;
            return;
        }
        for (i64 i = 0; i < count; i++) {
            i64 value = get(values, wide, i), its = (i64)(((u64)value - (u64)least) >> shift);
            if (its == bin)
                put(values, wide, kept++, value);
            else if (its > bin && value < above)
                above = value;
        }
        count = kept;
        least += bin << shift;
        bits = shift;
    }
}

/* Write count, sum, least, most, both middle ones, and the sum of squares (upper and lower half) of the numbers. */
static inline void describe(u8 *values, int wide, i64 count, i64 *bins, i64 *row) {
    i64 total = 0, least = get(values, wide, 0), most = least;
    unsigned __int128 squares = 0;
    for (i64 i = 0; i < count; i++) {
        i64 value = get(values, wide, i);
        total += value;
        least = value < least ? value : least;
        most = value > most ? value : most;
        squares += (unsigned __int128)(u64)value * (u64)value;
    }
    row[0] = count;
    row[1] = total;
    row[2] = least;
    row[3] = most;
    find_middle(values, wide, count, least, most, bins, row + 4);
    row[6] = (i64)(u64)(squares >> 64);
    row[7] = (i64)(u64)squares;
}

static inline i64 summarize_stretches(const i64 *owner, const i64 *begin, const i64 *end, i64 stretches, i64 *next,
                                      numbers rows, numbers duration, numbers code, const i64 *name_of, i64 codes,
                                      i64 names, i64 *reached, i64 *found, i64 *bins, u8 *values, int wide, i64 room,
                                      i64 *out, i64 capacity) {
    i64 filled = 0, places = rows.length ? rows.length : code.length;
    while (*next < stretches) {
        i64 first = *next, last = first, used = 0, total = 0;
        while (last < stretches && owner[last] == owner[first])
            last++;
        for (i64 each = first; each < last; each++) {
            if (begin[each] < 0 || end[each] > places)
                return -1;
            for (i64 place = begin[each]; place < end[each]; place++) {
                i64 name = name_at(place, rows, code, name_of, codes, names);
                if (name == LEFT_OUT)
                    continue;
                if (name < 0 || total++ >= room)
                    return -1;
                if (!reached[name]++)
                    found[used++] = name;
            }
        }
        if (filled + used > capacity) {
            for (i64 i = 0; i < used; i++)
                reached[found[i]] = 0;
            return filled;
        }
        i64 before = 0;
        for (i64 i = 0; i < used; i++) {
            i64 count = reached[found[i]];
            reached[found[i]] = before;
            before += count;
        }
        for (i64 each = first; each < last; each++)
            for (i64 place = begin[each]; place < end[each]; place++) {
                i64 name = name_at(place, rows, code, name_of, codes, names);
                if (name != LEFT_OUT)
                    put(values, wide, reached[name]++, item(duration, rows.length ? item(rows, place) : place));
            }
        before = 0;
        for (i64 i = 0; i < used; i++) {
            i64 *row = out + STATISTICS * filled++, upto = reached[found[i]];
            row[0] = owner[first];
            row[1] = found[i];
            describe(values + (wide ? 8 : 4) * before, wide, upto - before, bins, row + 2);
            before = upto;
            reached[found[i]] = 0;
        }
        *next = last;
    }
    return filled;
}

/* Write what `describe` says of the durations of each owner and name into `out` (capacity, 10), names in the order in
   which they occur; return how many rows that are. -1: the arrays do not fit each other.

   owner, begin, end: the places of each owner, as stretches that lie together. next: the first stretch to do; it is moved
   behind the last one done, and before an owner that `out` has no room for. rows: the row of each place; empty where these
   are the same. code: of each row. name_of: of each code, or -1 to leave it out. reached: a zero for each name. found:
   room for each name. bins: room for 2048. values: as many as one owner has, as wide as the durations. */
i64 summarize(const i64 *owner, const i64 *begin, const i64 *end, i64 stretches, i64 *next, const numbers *rows,
              const numbers *duration, const numbers *code, const i64 *name_of, i64 codes, i64 names, i64 *reached,
              i64 *found, i64 *bins, const numbers *values, i64 *out, i64 capacity) {
    if (duration->length != code->length || duration->kind != values->kind)
        return -1;
    u8 *room = (u8 *)values->at;
    if (duration->kind == 5)
        return summarize_stretches(owner, begin, end, stretches, next, *rows, *duration, *code, name_of, codes, names,
                                   reached, found, bins, room, 0, values->length, out, capacity);
    if (duration->kind == 8)
        return summarize_stretches(owner, begin, end, stretches, next, *rows, *duration, *code, name_of, codes, names,
                                   reached, found, bins, room, 1, values->length, out, capacity);
    return -1;
}

/* --- Calls by range, for nsysprof/analysis/ranges ----------------------------------------------------------------- */

/* The open ranges of a thread or process: where its next range is, how many are open, of how many families and groups,
   when the first of them ends, up to which end of a call these lists hold, and when the last call began. */
typedef struct {
    i64 next, open, families, groups, least_end, until, last_start;
} open_ranges;

#define NOT_IN_ORDER -1
#define TOO_MANY -2

/* Count the calls within ranges: by family and column into `sums` (families, columns, 2: calls and total time), and the
   launches by group into `launched` (groups, 3: all, replays, lost) and by instance into `of_instance` (2: all, lost).
   A call within several ranges of one family or group counts once.

   A call is within each range of its owner (thread or process) that begins before it and ends after it. Ranges need not
   nest. Return 0, NOT_IN_ORDER where the calls of an owner are not in order of start, or TOO_MANY where more than `most`
   ranges had to be looked at.

   order: the row of each call; empty where these are in order. owner_of, column_of: of each variant, or -1. launches,
   replays, lost: whether each call is one; empty where none is. ranges: begin, end, family, group and instance of each,
   from edges[owner] on in order of begin. state: zeros. open, families, groups: room for each range. stamps: a zero for
   each family and each group. */
i64 count_calls(const numbers *order_, const numbers *start_, const numbers *duration_, const numbers *variant_,
                const i64 *owner_of, const i64 *column_of, i64 variants, i64 columns, const numbers *launches_,
                const numbers *replays_, const numbers *lost_, const i64 *edges, i64 owners, const i64 *ranges, i64 count,
                open_ranges *state, i64 *open_, i64 *families_, i64 *groups_, i64 *stamps, i64 family_count, i64 most,
                i64 *sums, i64 *launched, i64 *of_instance) {
    numbers order = *order_, start = *start_, duration = *duration_, variant = *variant_;
    numbers launches = *launches_, replays = *replays_, lost = *lost_;
    const i64 *begin = ranges, *end = begin + count, *family = end + count, *group = family + count,
              *instance = group + count;
    i64 calls = start.length, stamp = 0, looked = 0;
    if (duration.length != calls || variant.length != calls || (launches.length && launches.length != calls))
        return TOO_MANY;
    if ((replays.length && replays.length != calls) || (lost.length && lost.length != calls))
        return TOO_MANY;
    for (i64 place = 0; place < (order.length ? order.length : calls); place++) {
        i64 row = order.length ? item(order, place) : place;
        if ((u64)row >= (u64)calls)
            return TOO_MANY;
        i64 kind = item(variant, row);
        if ((u64)kind >= (u64)variants)
            return TOO_MANY;
        i64 owner = owner_of[kind];
        if ((u64)owner >= (u64)owners)
            continue;
        i64 starts = item(start, row), lasts = item(duration, row), ends = starts + lasts;
        i64 first = edges[owner], last = edges[owner + 1];
        open_ranges *its = state + owner;
        i64 *open = open_ + first, *families = families_ + first, *groups = groups_ + first;
        if (its->next == 0)
            its->next = first + 1; /* one more than it is, so that 0 means that nothing has been seen */
        else if (starts < its->last_start)
            return NOT_IN_ORDER;
        its->last_start = starts;
        int is_changed = 0;
        if (its->open && its->least_end < starts) {
            i64 kept = 0;
            looked += its->open;
            for (i64 i = 0; i < its->open; i++)
                if (end[open[i]] >= starts)
                    open[kept++] = open[i];
            its->open = kept;
            is_changed = 1;
        }
        for (; its->next - 1 < last && begin[its->next - 1] <= starts; its->next++)
            if (end[its->next - 1] >= starts) {
                open[its->open++] = its->next - 1;
                is_changed = 1;
            }
        if (!its->open)
            continue;
        if (is_changed || ends > its->until) {
            stamp++;
            looked += its->open;
            its->families = its->groups = 0;
            its->least_end = MOST;
            for (i64 i = 0; i < its->open; i++) {
                i64 range = open[i];
                if (end[range] < its->least_end)
                    its->least_end = end[range];
                if (end[range] < ends)
                    continue;
                if (stamps[family[range]] != stamp) {
                    stamps[family[range]] = stamp;
                    families[its->families++] = family[range];
                }
                if (stamps[family_count + group[range]] != stamp) {
                    stamps[family_count + group[range]] = stamp;
                    groups[its->groups++] = group[range];
                }
            }
            /* Where the call lasts longer than a range, the lists lack this range and hold for no other call. */
            its->until = ends > its->least_end ? NONE : its->least_end;
        }
        looked += its->families;
        if (looked > most)
            return TOO_MANY;
        i64 column = column_of[kind];
        if ((u64)column < (u64)columns)
            for (i64 i = 0; i < its->families; i++) {
                i64 *sum = sums + 2 * (families[i] * columns + column);
                sum[0]++;
                sum[1] += lasts;
            }
        if (!launches.length || !item(launches, row))
            continue;
        i64 is_replay = replays.length && item(replays, row), is_lost = lost.length && item(lost, row);
        for (i64 i = 0; i < its->groups; i++) {
            i64 *number = launched + 3 * groups[i];
            number[0]++;
            number[1] += is_replay;
            number[2] += is_lost;
        }
        for (i64 i = 0; i < its->open && lost.length; i++)
            if (end[open[i]] >= ends) {
                of_instance[2 * instance[open[i]]]++;
                of_instance[2 * instance[open[i]] + 1] += is_lost;
            }
    }
    return 0;
}

/* --- Work by range, for nsysprof/analysis/ranges/range_work -------------------------------------------------------- */

/* Find the sets of ranges that work belongs to: places of `order` that follow each other often have the same. Return how
   many sets there are, or -1 where there is no room for them.

   instance, low, high, level: of each stretch of places that a range has, in order of low. group: of each instance.
   stamps: a zero for each group. open: room for each stretch. set_of: takes the set of each row of work, where it has
   one. edges, items: take where the instances of each set begin, and these; group_edges, group_items: its groups, each
   once. own: takes the instance of each set that has the highest level, of several the last one. */
i64 find_sets(const i32 *order, i64 places, const i64 *instance, const i64 *low, const i64 *high, const i64 *level,
              const i64 *number, i64 stretches, const i64 *group, i64 *stamps, i64 *open, i32 *set_of, i32 *edges,
              i32 *items, i32 *group_edges, i32 *group_items, i32 *own, i64 most_sets, i64 most_items) {
    i64 sets = 0, next = 0, opened = 0, least = MOST, used = 0, group_used = 0;
    int is_changed = 0;
    edges[0] = group_edges[0] = 0;
    for (i64 place = 0; place < places; place++) {
        if (opened && least <= place) {
            i64 kept = 0;
            for (i64 i = 0; i < opened; i++)
                if (high[open[i]] > place)
                    open[kept++] = open[i];
            opened = kept;
            is_changed = 1;
        }
        for (; next < stretches && low[next] <= place; next++)
            if (high[next] > place) {
                open[opened++] = next;
                is_changed = 1;
            }
        if (!opened)
            continue;
        if (is_changed) {
            if (sets >= most_sets || used + opened > most_items)
                return -1;
            least = MOST;
            i64 top = open[0];
            for (i64 i = 0; i < opened; i++) {
                i64 stretch = open[i], its = group[instance[stretch]];
                least = high[stretch] < least ? high[stretch] : least;
                if (level[stretch] > level[top] || (level[stretch] == level[top] && number[stretch] > number[top]))
                    top = stretch;
                items[used++] = (i32)instance[stretch];
                if (stamps[its] != sets + 1) {
                    stamps[its] = sets + 1;
                    group_items[group_used++] = (i32)its;
                }
            }
            own[sets++] = (i32)instance[top];
            edges[sets] = (i32)used;
            group_edges[sets] = (i32)group_used;
            is_changed = 0;
        }
        set_of[order[place]] = (i32)(sets - 1);
    }
    return sets;
}

/* What a range instance launched: kernels, their time, first start, last end, busy time, and up to when it was busy. */
typedef struct {
    i64 kernels, kernel_ns, first, last, busy, reached;
} of_instance;

/* The same of a group of ranges, with what it adopted (all), bytes, and what no inner range launched (own). */
typedef struct {
    i64 kernels, kernel_ns, busy, reached, all_busy, all_reached, copied, filled, own_kernels, own_kernel_ns;
    i64 caused_copied, caused_filled;
} of_group;

/* Work that belongs to the same ranges, from `first` to `last`: busy for a time. */
typedef struct {
    i64 rows, kernels, kernel_ns, first, last, busy, copied, filled, set, adopter, is_apart;
} pending_work;

static inline void add_busy(i64 *busy, i64 *reached, const pending_work *its) {
    if (its->first >= *reached)
        *busy += its->busy;
    else if (its->last > *reached)
        *busy += its->last - *reached;
    *reached = later(*reached, its->last);
}

/* Sum up the work of one device by range instance and by group, in order of start; return 0, or -1 where more than
   `most` ranges had to be looked at, or where the arrays do not fit each other.

   Work that follows work of the same ranges is added to this first, unless other work still ran when it began. So the
   ranges around it are looked at once for many kernels.

   in_order: how many rows come in order. late: the other rows in order. kinds: of each variant. set_of: the set of each
   row, or -1; edges to own: as find_sets makes them. adopter: the range that adopted each row, or -1; empty where none
   did. parent: of each range. group: of each range. stamps: a zero for each group. wait: zeros. */
i64 measure_work(const i64 *start, const numbers *duration_, const numbers *variant_, const i64 *bytes, i64 kernels,
                 i64 in_order, const i32 *late, i64 lates, const i64 *device_of, const i64 *kinds, i64 variants,
                 i64 device, const i32 *set_of, const i32 *edges, const i32 *items, const i32 *group_edges,
                 const i32 *group_items, const i32 *own, const numbers *adopter_, const i64 *parent, const i64 *group,
                 i64 *stamps, i64 most, pending_work *wait, of_instance *instances, of_group *groups) {
    numbers duration = *duration_, variant = *variant_, adopter = *adopter_;
    i64 looked = 0, stamp = 0, at = 0, late_at = 0;
    if (variant.length != duration.length || (adopter.length && adopter.length != duration.length))
        return -1;
    for (;;) {
        i64 row = -1, set = -1, owner = -1;
        if (at < in_order && (late_at >= lates || start[at] <= start[late[late_at]]))
            row = at++;
        else if (late_at < lates)
            row = late[late_at++];
        i64 kind = 0, begins = 0, lasts = 0;
        if (row >= 0) {
            set = set_of[row];
            owner = adopter.length ? item(adopter, row) : -1;
            if (set < 0 && owner < 0)
                continue;
            kind = item(variant, row);
            if ((u64)kind >= (u64)variants)
                return -1;
            if (device_of[kind] != device)
                continue;
            begins = start[row];
            lasts = item(duration, row);
        }
        if (wait->rows && (row < 0 || !wait->is_apart || wait->set != set || wait->adopter != owner)) {
            stamp++;
            if (wait->set >= 0) {
                for (i64 i = edges[wait->set]; i < edges[wait->set + 1]; i++) {
                    of_instance *its = instances + items[i];
                    its->kernels += wait->kernels;
                    its->kernel_ns += wait->kernel_ns;
                    its->first = wait->first < its->first ? wait->first : its->first;
                    its->last = wait->last > its->last ? wait->last : its->last;
                    add_busy(&its->busy, &its->reached, wait);
                }
                for (i64 i = group_edges[wait->set]; i < group_edges[wait->set + 1]; i++) {
                    of_group *its = groups + group_items[i];
                    stamps[group_items[i]] = stamp;
                    its->kernels += wait->kernels;
                    its->kernel_ns += wait->kernel_ns;
                    its->copied += wait->copied;
                    its->filled += wait->filled;
                    add_busy(&its->busy, &its->reached, wait);
                    if (adopter.length)
                        add_busy(&its->all_busy, &its->all_reached, wait);
                }
                groups[group[own[wait->set]]].own_kernels += wait->kernels;
                groups[group[own[wait->set]]].own_kernel_ns += wait->kernel_ns;
            }
            for (i64 range = wait->adopter; range >= 0 && looked <= most; range = parent[range], looked++) {
                of_group *its = groups + group[range];
                if (stamps[group[range]] == stamp)
                    continue;
                stamps[group[range]] = stamp;
                add_busy(&its->all_busy, &its->all_reached, wait);
                its->caused_copied += wait->copied;
                its->caused_filled += wait->filled;
            }
            wait->rows = 0;
        }
        if (row < 0)
            return 0;
        if (looked > most)
            return -1;
        if (!wait->rows) {
            i64 reached = NONE;
            if (set >= 0) {
                for (i64 i = edges[set]; i < edges[set + 1]; i++)
                    reached = instances[items[i]].reached > reached ? instances[items[i]].reached : reached;
                for (i64 i = group_edges[set]; i < group_edges[set + 1]; i++) {
                    of_group *its = groups + group_items[i];
                    reached = its->reached > reached ? its->reached : reached;
                    reached = its->all_reached > reached ? its->all_reached : reached;
                }
                looked += edges[set + 1] - edges[set];
            }
            for (i64 range = owner; range >= 0 && looked <= most; range = parent[range], looked++) {
                of_group *its = groups + group[range];
                reached = its->all_reached > reached ? its->all_reached : reached;
            }
            wait->kernels = wait->kernel_ns = wait->busy = wait->copied = wait->filled = 0;
            wait->first = wait->last = begins;
            wait->set = set;
            wait->adopter = owner;
            wait->is_apart = begins >= reached;
        }
        i64 ends = begins + lasts;
        wait->rows++;
        if (ends > wait->last) {
            wait->busy += ends - (begins > wait->last ? begins : wait->last);
            wait->last = ends;
        }
        if (row < kernels) {
            wait->kernels++;
            wait->kernel_ns += lasts;
        } else if (kinds[kind] == 1)
            wait->copied += bytes[row - kernels];
        else if (kinds[kind] == 2)
            wait->filled += bytes[row - kernels];
    }
}

/* --- Idle time, for nsysprof/analysis/idle_time ---------------------------------------------------------------------- */

/* Write end and number of the thread of each call of some blocks that ended in (since, until]; return how many.

   order: the calls of the blocks; none: all in the order of the file. number_of: the number of the thread of each variant
   of call, -1 for those that do not count. */
i64 list_ends(const i64 *start, const numbers *duration, const numbers *variant, const i32 *order, i64 ordered,
              i64 block, const i64 *blocks, i64 count, const i64 *number_of, i64 variants, i64 since, i64 until,
              i64 *ended, i32 *thread, i64 capacity) {
    numbers takes = *duration, its_variant = *variant;
    i64 calls = ordered ? ordered : takes.length, found = 0;
    for (i64 each = 0; each < count; each++)
        for (i64 at = blocks[each] * block; at < (blocks[each] + 1) * block && at < calls; at++) {
            i64 row = ordered ? order[at] : at;
            i64 end = start[row] + item(takes, row), its = item(its_variant, row);
            if (end <= since || end > until || (u64)its >= (u64)variants || number_of[its] < 0)
                continue;
            if (found == capacity)
                return found;
            ended[found] = end;
            thread[found++] = (i32)number_of[its];
        }
    return found;
}

/* Return how many of the values from `low` to `high`, which are in order, are at most `most`; `guess` is near it. */
static i64 place_after(const i64 *values, i64 low, i64 high, i64 guess, i64 most) {
    i64 step = 1;
    guess = guess < low ? low : guess > high ? high : guess;
    if (guess < high && values[guess] <= most) {
        for (low = guess + 1; low + step < high && values[low + step - 1] <= most; step *= 2)
            low += step;
        high = low + step < high ? low + step : high;
    } else {
        for (high = guess; high - step > low && values[high - step] > most; step *= 2)
            high -= step;
        low = high - step > low ? high - step : low;
    }
    while (low < high) {
        i64 middle = low + (high - low) / 2;
        if (values[middle] <= most)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* In the order of CAUSES in nsysprof/results/column_registry/analysis_columns.py. */
#define OF_HOST 1
#define OF_DEPENDENCY 4
#define OF_COLLECTIVE 5
#define OF_UNKNOWN 7
#define CAUSES 11

/* The pieces of gaps. In `state`: how many there are, the time of each cause, the gaps with each cause, the unknown time
   without and with a launch, what has held up the thread since before the gap (for how long, its cause and call), how many
   pieces calls caused, and whether there was no room for these rather than for pieces. called, call: these pieces and
   their calls. */
typedef struct {
    i64 *start;
    u8 *duration, *cause;
    i64 capacity, wide;
    i32 *called, *call;
    i64 calls;
    i64 *state;
} pieces;

#define TOTALS 1
#define COUNTS (TOTALS + CAUSES)
#define UNKNOWN (COUNTS + CAUSES)
#define BUDGET (UNKNOWN + 2)
#define SOURCE (BUDGET + 1)
#define CALLED (SOURCE + 2)
#define FULL (CALLED + 1)

static void add_piece(const pieces *to, i64 begin, i64 end, i64 cause, i64 call) {
    if (end <= begin)
        return;
    i64 at = to->state[0]++;
    if (at >= to->capacity)
        return;
    to->start[at] = begin;
    put(to->duration, (int)to->wide, at, end - begin);
    to->cause[at] = (u8)cause;
    if (call < 0)
        return;
    i64 number = to->state[CALLED]++;
    if (number < to->calls) {
        to->called[number] = (i32)at;
        to->call[number] = (i32)call;
    }
}

/* Add time of the host. As much of it as is in the budget belongs to what has held up the thread since before the gap. */
static void add_host(const pieces *to, i64 begin, i64 end) {
    if (end <= begin)
        return;
    i64 *budget = to->state + BUDGET;
    i64 given = end - begin < *budget ? end - begin : *budget;
    *budget -= given;
    add_piece(to, begin, begin + given, to->state[SOURCE], to->state[SOURCE + 1]);
    add_piece(to, begin + given, end, OF_HOST, -1);
}

/* What held up the threads: the rows of thread t lie from first[t] to first[t + 1]. cursor: where each thread is. */
typedef struct {
    const i64 *first, *start, *end, *cause, *call;
    i64 *cursor;
} holds;

/* Add the pieces of [begin, end), a part of the gap that began at `gap`, by what held up a thread. */
static void add_held(const pieces *to, const holds *held, i64 thread, i64 begin, i64 end, i64 gap) {
    if (end <= begin)
        return;
    i64 row = held->cursor[thread], stop = held->first[thread + 1];
    while (row < stop && held->end[row] <= begin)
        row++;
    held->cursor[thread] = row;
    for (; row < stop && held->start[row] < end; row++) {
        i64 low = held->start[row] > begin ? held->start[row] : begin;
        i64 high = held->end[row] < end ? held->end[row] : end;
        add_host(to, begin, low);
        if (low == gap && gap > held->start[row]) {
            to->state[BUDGET] = gap - held->start[row];
            to->state[SOURCE] = held->cause[row];
            to->state[SOURCE + 1] = held->call[row];
        }
        add_piece(to, low, high, held->cause[row], held->call[row]);
        begin = high;
    }
    add_host(to, begin, end);
}

/* Add what the pieces from `first` on, all of one gap, add to the sums. */
static void sum_pieces(const pieces *of, i64 first) {
    i64 seen = 0;
    for (i64 at = first; at < of->state[0]; at++) {
        i64 cause = of->cause[at] < CAUSES ? of->cause[at] : OF_UNKNOWN;
        of->state[TOTALS + cause] += get(of->duration, (int)of->wide, at);
        of->state[COUNTS + cause] += !(seen >> cause & 1);
        seen |= (i64)1 << cause;
    }
}

/* Do what blame_gaps in nsysprof/analysis/idle_time/blame.py does, for the gaps from `first` to `stop`. Return the first
   gap that is not done, because there was no room for its pieces.

   thread_of, process_of: the number of the thread of each variant of call, and of the process of each thread whose calls
   are in `ended`; -1 for other threads. ended, by: when calls ended, in order, and their thread; those of process p lie
   from ended_first[p] to ended_first[p + 1]. near: where the last one of each process was found. */
i64 blame(const i64 *start, const numbers *duration, const numbers *variant, const i32 *launch, const i32 *ender,
          const i32 *before, i64 first, i64 stop, const i64 *call_start, const numbers *call_duration,
          const numbers *call_variant, const i64 *thread_of, i64 variants, const i64 *process_of, const u8 *is_collective,
          i64 kinds, const i64 *lost_ns, i64 lost, const i64 *held_first, const i64 *held_start, const i64 *held_end,
          const i64 *held_cause, const i64 *held_call, i64 *cursor, const i64 *ended, const i32 *by,
          const i64 *ended_first, i64 *near, i64 pick_up_ns, i64 *piece_start, const numbers *piece_duration, u8 *piece_cause,
          i64 capacity, i32 *called, i32 *piece_call, i64 called_capacity, i64 *state) {
    numbers takes = *duration, kind_of = *variant, call_takes = *call_duration, its_variant = *call_variant;
    const pieces to = {
        piece_start, (u8 *)piece_duration->at, piece_cause, capacity, piece_duration->kind == 8, called, piece_call,
        called_capacity, state,
    };
    const holds held = {held_first, held_start, held_end, held_cause, held_call, cursor};
    i64 calls = call_takes.length, lost_near = 0;
    for (i64 gap = first; gap < stop; gap++) {
        i64 row = ender[gap], earlier = before[gap], call = launch[row], its = -1;
        i64 filled = state[0], with_calls = state[CALLED];
        i64 begin = start[earlier] + item(takes, earlier), end = start[row];
        int known = (u64)call < (u64)calls;
        if (known) {
            its = item(its_variant, call);
            known = (u64)its < (u64)variants;
        }
        i64 begun = known ? call_start[call] : end;
        if (known && lost) {
            i64 previous = launch[earlier], since = (u64)previous < (u64)calls ? call_start[previous] : begin;
            lost_near = place_after(lost_ns, 0, lost, lost_near, begun);
            known = since >= begun || place_after(lost_ns, 0, lost, lost_near, since) == lost_near;
        }
        i64 done = known ? begun + item(call_takes, call) : end;
        if (!known) {
            add_piece(&to, begin, end, OF_UNKNOWN, -1);
        } else if (done <= begin) {
            i64 kind = item(kind_of, row);
            int joins = (u64)kind < (u64)kinds && is_collective[kind];
            add_piece(&to, begin, end, joins ? OF_COLLECTIVE : OF_DEPENDENCY, -1);
        } else {
            i64 limit = done < end ? done : end, since = begin;
            i64 thread = thread_of[its], giver = thread, process = process_of[thread];
            if (process >= 0) {
                i64 low = ended_first[process];
                near[process] = place_after(ended, low, ended_first[process + 1], near[process], begun);
                i64 at = near[process] - 1;
                if (at >= low && ended[at] > begin && by[at] != thread) {
                    i64 own = at - 1;
                    while (own >= low && ended[own] > begin && by[own] != thread)
                        own--;
                    if (own < low || ended[own] <= begin) {
                        giver = by[at];
                        since = ended[at] < limit ? ended[at] : limit;
                    }
                }
            }
            state[BUDGET] = 0;
            add_held(&to, &held, giver, begin, since, begin);
            add_held(&to, &held, thread, since, limit, begin);
            i64 picked = end - limit < pick_up_ns ? end : limit + pick_up_ns;
            add_host(&to, limit, picked);
            add_piece(&to, picked, end, OF_DEPENDENCY, -1);
        }
        if (state[0] > capacity || state[CALLED] > called_capacity) {
            state[FULL] = state[0] <= capacity;
            state[0] = filled;
            state[CALLED] = with_calls;
            return gap;
        }
        if (!known)
            state[UNKNOWN + (launch[row] >= 0)] += end - begin;
        sum_pieces(&to, filled);
    }
    return stop;
}
