/* Rows written and read through HDF5's C interface alone: the variable-length type, a flattened vector, and a
 * vector of bytes with offsets and lengths, as docs/ragged.md describes it.
 *
 * rows_benchmark WAY ACTION FILE ROWS ELEMENTS ROWS_A_CALL
 *   WAY: vlen, flattened or offset-vector; ACTION: write or read; all rows have ELEMENTS values of int32.
 * Prints seconds from the first call to the close of the file, and seconds of the calls, as two numbers.
 * Like Hyperslab's cases of rows: libver latest, contiguous datasets, values made before the stopwatch starts.
 * workflow/scripts/compare_with_c.py compiles and runs it beside them. */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES (16 * 1024 * 1024)
/* Of the vector of bytes, and of what leads to rows: what hyperslab.ragged chooses. */
#define CHUNK_BYTES (8 * 1024 * 1024)
#define ROW_CHUNK 4096

static void need(int there, const char *what)
{
    if (!there) {
        fprintf(stderr, "rows_benchmark: %s failed\n", what);
        exit(1);
    }
}

static double now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + 1e-9 * moment.tv_nsec;
}

/* The value of an element; a wrong row or order cannot pass. */
static int32_t value_of(uint64_t element)
{
    uint64_t mixed = element * 0x9E3779B97F4A7C15u;
    return (int32_t)(mixed >> 32);
}

static hid_t make(hid_t file, const char *name, hid_t type, hsize_t size)
{
    hid_t space = H5Screate_simple(1, &size, NULL);
    hid_t made = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    need(made >= 0, "H5Dcreate2");
    H5Sclose(space);
    return made;
}

/* Write or read `count` elements from `first` on. */
static void run(hid_t dataset, hid_t type, hsize_t first, hsize_t count, void *data, int writing)
{
    hid_t memory = H5Screate_simple(1, &count, NULL), file = H5Dget_space(dataset);
    need(H5Sselect_hyperslab(file, H5S_SELECT_SET, &first, NULL, &count, NULL) >= 0, "H5Sselect_hyperslab");
    herr_t status = writing ? H5Dwrite(dataset, type, memory, file, H5P_DEFAULT, data)
                            : H5Dread(dataset, type, memory, file, H5P_DEFAULT, data);
    need(status >= 0, writing ? "H5Dwrite" : "H5Dread");
    H5Sclose(memory);
    H5Sclose(file);
}

/* Where a row lies in the vector, in bytes. */
typedef struct {
    uint64_t offset, length;
} reference;

/* Rows that are appended: bytes are gathered to whole chunks, and then what leads to the rows that end in them. */
typedef struct {
    hid_t vector, primary, type;
    char *held;
    reference *rows;
    hsize_t filled, end, known, written;
} appended;

static hid_t reference_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(reference));
    H5Tinsert(type, "offset", HOFFSET(reference, offset), H5T_STD_U64LE);
    H5Tinsert(type, "length", HOFFSET(reference, length), H5T_STD_U64LE);
    return type;
}

/* A dataset without rows and without end. */
static hid_t make_growing(hid_t file, const char *name, hid_t type, hsize_t chunk, const void *fill)
{
    hsize_t none = 0, most = H5S_UNLIMITED;
    hid_t space = H5Screate_simple(1, &none, &most);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk(creation, 1, &chunk);
    if (fill) {
        H5Pset_fill_value(creation, type, fill);
    } else {
        H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
        H5Pset_chunk_cache(access, 521, 0, 0.75);
    }
    hid_t made = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, access);
    need(made >= 0, "H5Dcreate2");
    return made;
}

static void say(hid_t dataset, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t made = H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    need(made >= 0 && H5Awrite(made, type, &text) >= 0, "H5Acreate2");
    H5Aclose(made);
}

static void make_rows(appended *to, hid_t file)
{
    reference unwritten = {UINT64_MAX, 0};
    int64_t version = 1;
    to->vector = make_growing(file, "rows0.vector", H5T_STD_U8LE, CHUNK_BYTES, NULL);
    to->primary = make_growing(file, "rows0", to->type, ROW_CHUNK, &unwritten);
    say(to->primary, "row_dtype", "<i4");
    say(to->primary, "vector", "rows0.vector");
    hid_t number = H5Acreate2(to->primary, "convention_version", H5T_STD_I64LE, H5Screate(H5S_SCALAR),
                              H5P_DEFAULT, H5P_DEFAULT);
    need(number >= 0 && H5Awrite(number, H5T_NATIVE_INT64, &version) >= 0, "H5Acreate2");
    H5Aclose(number);
    say(to->primary, "convention", "ragged-rows");
}

static void write_held(appended *to)
{
    hsize_t end = to->end + to->filled, ended = to->written;
    if (to->filled) {
        need(H5Dset_extent(to->vector, &end) >= 0, "H5Dset_extent");
        run(to->vector, H5T_NATIVE_UINT8, to->end, to->filled, to->held, 1);
    }
    to->end = end;
    to->filled = 0;
    while (ended < to->known && to->rows[ended].offset + to->rows[ended].length <= end)
        ended++;
    if (ended > to->written) {
        need(H5Dset_extent(to->primary, &ended) >= 0, "H5Dset_extent");
        run(to->primary, to->type, to->written, ended - to->written, to->rows + to->written, 1);
    }
    to->written = ended;
}

static void append(appended *to, const void *row, hsize_t size)
{
    const char *from = row;
    to->rows[to->known].offset = to->end + to->filled;
    to->rows[to->known++].length = size;
    while (size) {
        hsize_t part = CHUNK_BYTES - to->filled < size ? CHUNK_BYTES - to->filled : size;
        memcpy(to->held + to->filled, from, part);
        from += part;
        size -= part;
        to->filled += part;
        if (to->filled == CHUNK_BYTES)
            write_held(to);
    }
}

int main(int argc, char **argv)
{
    need(argc == 7, "reading WAY ACTION FILE ROWS ELEMENTS ROWS_A_CALL");
    int vlen = !strcmp(argv[1], "vlen"), vector = !strcmp(argv[1], "offset-vector");
    int writing = !strcmp(argv[2], "write");
    need(vlen || vector || !strcmp(argv[1], "flattened"), "reading WAY");
    need(writing || !strcmp(argv[2], "read"), "reading ACTION");
    hsize_t rows = strtoull(argv[4], NULL, 10), length = strtoull(argv[5], NULL, 10);
    hsize_t call = strtoull(argv[6], NULL, 10);
    need(rows && length && call && call * length <= MAX_BYTES, "finding a call of at most 64 MiB");

    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    need(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0, "H5Pset_libver_bounds");
    hid_t element = H5Tvlen_create(H5T_NATIVE_INT32), file, data = -1, lengths = -1;
    appended to = {-1, -1, reference_type(), malloc(CHUNK_BYTES), malloc(rows * sizeof(reference)), 0, 0, 0, 0};
    need(to.held && to.rows, "malloc");
    if (writing) {
        file = H5Fcreate(argv[3], H5F_ACC_TRUNC, H5P_DEFAULT, access);
        need(file >= 0, "H5Fcreate");
        if (vector)
            make_rows(&to, file);
        else
            data = make(file, "rows0", vlen ? element : H5T_STD_I32LE, vlen ? rows : rows * length);
        if (!vlen && !vector)
            lengths = make(file, "rows0.lengths", H5T_STD_I64LE, rows);
    } else {
        file = H5Fopen(argv[3], H5F_ACC_RDONLY, access);
        need(file >= 0, "H5Fopen");
        if (vector) {
            hid_t uncached = H5Pcreate(H5P_DATASET_ACCESS);
            H5Pset_chunk_cache(uncached, 521, 0, 0.75);
            to.vector = H5Dopen2(file, "rows0.vector", uncached);
            to.primary = H5Dopen2(file, "rows0", H5P_DEFAULT);
        } else {
            data = H5Dopen2(file, "rows0", H5P_DEFAULT);
        }
        if (!vlen && !vector)
            lengths = H5Dopen2(file, "rows0.lengths", H5P_DEFAULT);
    }
    need(vector ? to.vector >= 0 && to.primary >= 0 : data >= 0, "opening rows0");

    int32_t *values = malloc(call * length * sizeof *values);
    hvl_t *descriptors = malloc(call * sizeof *descriptors);
    int64_t *sizes = malloc((writing ? call : rows) * sizeof *sizes);
    need(values && descriptors && sizes, "malloc");
    double calls = 0, began;
    if (!writing && !vlen && !vector) {
        began = now();
        run(lengths, H5T_NATIVE_INT64, 0, rows, sizes, 0);
        calls += now() - began;
    }
    for (hsize_t first = 0; first < rows; first += call) {
        hsize_t count = first + call < rows ? call : rows - first;
        for (hsize_t i = 0; writing && i < count * length; i++)
            values[i] = value_of(first * length + i);
        for (hsize_t i = 0; writing && i < count; i++) {
            descriptors[i].len = length;
            descriptors[i].p = values + i * length;
            sizes[i] = (int64_t)length;
        }
        began = now();
        if (vector && writing) {
            for (hsize_t i = 0; i < count; i++)
                append(&to, values + i * length, length * sizeof *values);
        } else if (vector) {
            reference *there = to.rows + first;
            run(to.primary, to.type, first, count, there, 0);
            hsize_t size = there[count - 1].offset + there[count - 1].length - there[0].offset;
            need(size == count * length * sizeof *values, "finding rows side by side");
            run(to.vector, H5T_NATIVE_UINT8, there[0].offset, size, values, 0);
        } else if (vlen) {
            run(data, element, first, count, descriptors, writing);
        } else {
            run(data, H5T_NATIVE_INT32, first * length, count * length, values, writing);
            if (writing)
                run(lengths, H5T_NATIVE_INT64, first, count, sizes, 1);
        }
        calls += now() - began;
        for (hsize_t i = 0; !writing && i < count; i++) {
            const int32_t *row = vlen ? descriptors[i].p : values + i * length;
            hsize_t there = vlen     ? descriptors[i].len
                            : vector ? to.rows[first + i].length / sizeof *values
                                     : (hsize_t)sizes[first + i];
            need(there == length, "finding a row's length");
            for (hsize_t j = 0; j < length; j++)
                need(row[j] == value_of((first + i) * length + j), "finding a row's values");
            if (vlen)
                free(descriptors[i].p);
        }
    }
    began = now();
    if (vector) {
        if (writing)
            write_held(&to);
        H5Dclose(to.vector);
        H5Dclose(to.primary);
    } else {
        H5Dclose(data);
    }
    if (lengths >= 0)
        H5Dclose(lengths);
    need(H5Fclose(file) >= 0, "H5Fclose");
    printf("%.9f %.9f\n", calls + now() - began, calls);
    return 0;
}
