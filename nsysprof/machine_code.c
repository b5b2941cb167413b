/* The loops of nsysprof that Python is too slow for. scripts/build_machine_code makes machine_code.ll of this file.

   Numbers of a file are not trusted: nothing is read outside the arrays whatever the bytes are, and -1 means that SQLite
   must read the table. All integers have 64 bits and wrap around. Nothing here depends on the processor. */

typedef unsigned char u8;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;

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

/* Read the rows of `pages` leaf pages into `out` (width, capacity); return their number, or -1.

   wanted: for each column of the table up to the last needed one, its row in `out`, or -1. The last row of `out` takes
   the rowids. above, at_most: for each page, the bounds of its rowids according to the pages that refer to it.
   is_only: whether the table is one page, which may be empty. */
i64 decode(const u8 *buffer, i64 pages, i64 page_size, i64 usable, const i64 *wanted, i64 columns, const i64 *above,
           const i64 *at_most, i64 is_only, i64 *out, i64 width, i64 capacity) {
    i64 row = 0;
    for (i64 page = 0; page < pages; page++) {
        i64 base = page * page_size, end = base + usable;
        i64 cells = (i64)buffer[base + 3] << 8 | buffer[base + 4];
        i64 first = base + 8 + 2 * cells;
        if (buffer[base] != LEAF || first > end || row + cells > capacity || (cells == 0 && !is_only))
            return -1;
        i64 last = above[page];
        int is_first = last == NONE;
        for (i64 cell = 0; cell < cells; cell++) {
            i64 pointer = base + 8 + 2 * cell;
            i64 at = base + ((i64)buffer[pointer] << 8 | buffer[pointer + 1]);
            if (at < first || at >= end)
                return -1;
            i64 begin = at;
            i64 size = varint(buffer, &at);
            /* SQLite reads nine bytes of a size differently; no page needs more than three. */
            if (at > begin + 3 || size < 1 || size > usable - 35) /* damaged, or continued on an overflow page */
                return -1;
            i64 key = varint(buffer, &at);
            i64 stop = at + size;
            if (stop > end || (key <= last && !is_first) || key > at_most[page])
                return -1;
            last = key;
            is_first = 0;
            i64 kind = at;
            i64 header = varint(buffer, &kind);
            if (header < 1 || header > size)
                return -1;
            i64 body = at + header, serials_end = body;
            for (i64 column = 0; column < columns; column++) {
                if (kind >= serials_end) /* the row is older than the column */
                    return -1;
                i64 serial = varint(buffer, &kind);
                if (serial < 0)
                    return -1;
                i64 length = serial < 12 ? SIZES[serial] : (serial - 12) >> 1;
                if (length < 0 || length > stop - body)
                    return -1;
                if (wanted[column] >= 0)
                    out[wanted[column] * capacity + row] = number(buffer + body, serial);
                body += length;
            }
            /* SQLite checks this too: a header that ends here belongs to a row that ends here. */
            if (kind > serials_end || (kind == serials_end && body != stop))
                return -1;
            out[(width - 1) * capacity + row] = key;
            row++;
        }
    }
    return row;
}

static int is_same(const i64 *rows, i64 row, const i64 *values, i64 width, i64 count, i64 at) {
    for (i64 j = 0; j < width; j++)
        if (rows[row * width + j] != values[j * count + at])
            return 0;
    return 1;
}

/* Code each column of `values` (width, count) from `begin` on by its row in `rows` (capacity, width), and add new tuples.

   Return the columns done: fewer than `count` when `rows` is full, -1 when too many tuples have one hash.

   slots: an open-addressing hash table of row numbers (-1: free) of mask + 1 slots, a power of two. used: how many rows
   are used; it is changed. */
i64 encode(const i64 *values, i64 width, i64 count, i64 begin, i64 *slots, i64 mask, i64 *rows, i64 capacity, i64 *used,
           i64 *codes) {
    i64 last = -1;
    for (i64 i = begin; i < count; i++) {
        if (last < 0 || !is_same(rows, last, values, width, count, i)) {
            u64 mixed = 0;
            for (i64 j = 0; j < width; j++) {
                mixed = (mixed ^ (u64)values[j * count + i]) * 0x9E3779B97F4A7C15ull;
                mixed ^= mixed >> 32;
            }
            i64 slot = (i64)(mixed & (u64)mask), probes = 0;
            for (;;) {
                last = slots[slot];
                if (last < 0) {
                    if (*used == capacity)
                        return i;
                    for (i64 j = 0; j < width; j++)
                        rows[*used * width + j] = values[j * count + i];
                    slots[slot] = last = (*used)++;
                    break;
                }
                if (is_same(rows, last, values, width, count, i))
                    break;
                slot = (slot + 1) & mask;
                if (++probes > MOST_PROBES)
                    return -1;
            }
        }
        codes[i] = last;
    }
    return count;
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
            i64 start = begin + issue[work];
            i64 ready = free[stream[work]] + after_stream[work];
            if (ready > start)
                start = ready;
            if (other[work] >= 0) {
                ready = finished[other[work]] + after_other[work];
                if (ready > start)
                    start = ready;
            }
            i64 done = start + duration[work];
            finished[work] = free[stream[work]] = done;
            if (done > last)
                last = done;
        }
        if (waits_for[call] >= 0) {
            i64 ready = finished[waits_for[call]] + returns[call];
            if (ready > end)
                end = ready;
        }
        ended[call] = end;
        if (end > last)
            last = end;
    }
    return last - since;
}

/* Of the C library. */
i64 pread(i32 descriptor, u8 *buffer, i64 count, i64 offset);
i32 madvise(i64 address, i64 length, i32 advice);
i32 usleep(i32 microseconds);

#define DONTNEED 4 /* as Linux has it on every processor */
#define TEXT_BYTES 128

/* Return a number of /proc/self/statm: 1 for the resident pages, 2 for those of files. */
static i64 pages_of(i32 descriptor, u8 *text, int wanted) {
    i64 length = pread(descriptor, text, TEXT_BYTES, 0), value = 0;
    int number = 0;
    for (i64 at = 0; at < length; at++) {
        if (text[at] != ' ')
            value = 10 * value + (text[at] - '0');
        else if (number++ == wanted)
            return value;
        else
            value = 0;
    }
    return 0;
}

/* Let go of the pages of the areas whenever memory comes near the limit; return once that is no longer enough.

   The result is how much of the memory belongs to no file (bytes).

   descriptor: of /proc/self/statm. begins, lengths: the areas. limit, margin, library_bytes: bytes, as in
   nsysprof.files.memory_limit. times: counts how often pages were let go. text: room for 128 bytes; a local array would
   need instructions that versions of LLVM spell differently. */
i64 keep_below(i32 descriptor, u8 *text, i64 areas, const i64 *begins, const i64 *lengths, i64 limit,
               i64 margin, i64 library_bytes, i64 page_bytes, i64 pause_us, i64 *times) {
    for (;;) {
        i64 reached = pages_of(descriptor, text, 1) * page_bytes;
        if (reached > limit - margin) {
            /* On a busy machine, memory grows further until this thread gets its turn. */
            i64 twice = 2 * (reached - limit + margin);
            margin = margin > twice ? margin : twice;
            margin = margin < limit / 2 ? margin : limit / 2;
            for (i64 area = 0; area < areas; area++)
                madvise(begins[area], lengths[area], DONTNEED);
            ++*times;
            i64 outside = (pages_of(descriptor, text, 1) - pages_of(descriptor, text, 2)) * page_bytes;
            if (outside + library_bytes > limit)
                return outside;
        }
        usleep((i32)pause_us);
    }
}
