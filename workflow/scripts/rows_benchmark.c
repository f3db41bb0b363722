/* Rows written and read through HDF5's C interface alone: the variable-length type, and a flattened vector.
 *
 * rows_benchmark WAY ACTION FILE ROWS ELEMENTS ROWS_A_CALL
 *   WAY: vlen or flattened; ACTION: write or read; all rows have ELEMENTS values of int32.
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

int main(int argc, char **argv)
{
    need(argc == 7, "reading WAY ACTION FILE ROWS ELEMENTS ROWS_A_CALL");
    int vlen = !strcmp(argv[1], "vlen"), writing = !strcmp(argv[2], "write");
    need(vlen || !strcmp(argv[1], "flattened"), "reading WAY");
    need(writing || !strcmp(argv[2], "read"), "reading ACTION");
    hsize_t rows = strtoull(argv[4], NULL, 10), length = strtoull(argv[5], NULL, 10);
    hsize_t call = strtoull(argv[6], NULL, 10);
    need(rows && length && call && call * length <= MAX_BYTES, "finding a call of at most 64 MiB");

    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    need(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0, "H5Pset_libver_bounds");
    hid_t element = H5Tvlen_create(H5T_NATIVE_INT32), file, data, lengths = -1;
    if (writing) {
        file = H5Fcreate(argv[3], H5F_ACC_TRUNC, H5P_DEFAULT, access);
        need(file >= 0, "H5Fcreate");
        data = make(file, "rows0", vlen ? element : H5T_STD_I32LE, vlen ? rows : rows * length);
        if (!vlen)
            lengths = make(file, "rows0.lengths", H5T_STD_I64LE, rows);
    } else {
        file = H5Fopen(argv[3], H5F_ACC_RDONLY, access);
        need(file >= 0, "H5Fopen");
        data = H5Dopen2(file, "rows0", H5P_DEFAULT);
        if (!vlen)
            lengths = H5Dopen2(file, "rows0.lengths", H5P_DEFAULT);
    }
    need(data >= 0, "opening rows0");

    int32_t *values = malloc(call * length * sizeof *values);
    hvl_t *descriptors = malloc(call * sizeof *descriptors);
    int64_t *sizes = malloc((writing ? call : rows) * sizeof *sizes);
    need(values && descriptors && sizes, "malloc");
    double calls = 0, began;
    if (!writing && !vlen) {
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
        if (vlen) {
            run(data, element, first, count, descriptors, writing);
        } else {
            run(data, H5T_NATIVE_INT32, first * length, count * length, values, writing);
            if (writing)
                run(lengths, H5T_NATIVE_INT64, first, count, sizes, 1);
        }
        calls += now() - began;
        for (hsize_t i = 0; !writing && i < count; i++) {
            const int32_t *row = vlen ? descriptors[i].p : values + i * length;
            hsize_t there = vlen ? descriptors[i].len : (hsize_t)sizes[first + i];
            need(there == length, "finding a row's length");
            for (hsize_t j = 0; j < length; j++)
                need(row[j] == value_of((first + i) * length + j), "finding a row's values");
            if (vlen)
                free(descriptors[i].p);
        }
    }
    began = now();
    H5Dclose(data);
    if (lengths >= 0)
        H5Dclose(lengths);
    need(H5Fclose(file) >= 0, "H5Fclose");
    printf("%.9f %.9f\n", calls + now() - began, calls);
    return 0;
}
