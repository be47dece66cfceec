/* Formats that cannot be read, known by name or first bytes, and what to do with each. */
#include "data/files/bytes.h"

#include <string.h>

static const char TO_CSV[] = "save the sheet as csv (pandas: "
                             "pd.read_excel(FILE).to_csv('out.csv', index=False))";
static const char FRAME[] = "in Python use corestack.io.read_table(FILE), or write csv: "
                            "pd.read_parquet(FILE).to_csv('out.csv', index=False)";
static const char FEATHER[] = "in Python use corestack.io.read_table(FILE), or write csv: "
                              "pd.read_feather(FILE).to_csv('out.csv', index=False)";
static const char PICKLE[] = "a pickle runs code when it is loaded, so it is never read; load it "
                             "where you trust it and write numpy.save('out.npy', predictions)";
static const char TORCH[] = "write the tensor with numpy.save('out.npy', tensor.cpu().numpy()) or "
                            "as safetensors";
static const char HDF[] = "write the data set with numpy.save('out.npy', file['NAME'][:])";
static const char JSON[] =
    "write csv or npy (numpy.save('out.npy', numpy.array(json.load(file)))), "
    "or, of log-probabilities of the likeliest classes, an npz of indices "
    "and logprobs";
static const char R[] = "write csv in R: write.csv(readRDS(FILE), 'out.csv', row.names=FALSE)";

/* Name, endings and first bytes of a format, and advice. */
static const struct {
    const char *name;
    const char *extensions[4];
    const char *magic; /* NULL: the name alone says it */
    size_t magic_bytes;
    const char *cure;
} FORMATS[] = {
    {"an Excel workbook", {".xlsx", ".xlsm", ".xlsb"}, NULL, 0, TO_CSV},
    {"an Excel workbook", {".xls"}, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, TO_CSV},
    {"an OpenDocument sheet", {".ods"}, NULL, 0, TO_CSV},
    {"a Parquet file", {".parquet", ".pq"}, "PAR1", 4, FRAME},
    {"a Feather (Arrow) file", {".feather", ".arrow", ".ftr"}, "ARROW1", 6, FEATHER},
    {"a Feather file", {NULL}, "FEA1", 4, FEATHER},
    {"a PyTorch file", {".pt", ".pth", ".ckpt"}, NULL, 0, TORCH},
    {"a pickle", {".pkl", ".pickle", ".joblib"}, NULL, 0, PICKLE},
    {"a pickle", {NULL}, "\x80\x02", 2, PICKLE},
    {"a pickle", {NULL}, "\x80\x03", 2, PICKLE},
    {"a pickle", {NULL}, "\x80\x04", 2, PICKLE},
    {"a pickle", {NULL}, "\x80\x05", 2, PICKLE},
    {"an HDF5 file", {".h5", ".hdf5", ".hdf", ".nc"}, "\x89HDF\r\n\x1a\n", 8, HDF},
    {"a MATLAB file", {".mat"}, "MATLAB 5.0", 10, "write csv or npy (scipy.io.loadmat reads it)"},
    {"an R data file", {".rds", ".rdata", ".rda"}, NULL, 0, R},
    {"compressed with zstd",
     {".zst", ".zstd"},
     "\x28\xb5\x2f\xfd",
     4,
     "decompress it first: zstd -d FILE"},
    {"compressed with bzip2", {".bz2"}, "BZh", 3, "decompress it first: bunzip2 FILE"},
    {"compressed with xz",
     {".xz", ".lzma"},
     "\xfd"
     "7zXZ",
     5,
     "decompress it first: unxz FILE"},
    {"compressed with lz4", {".lz4"}, "\x04\x22\x4d\x18", 4, "decompress it first: lz4 -d FILE"},
    {"compressed with gzip", {NULL}, "\x1f\x8b", 2, "add .gz to its name, or gunzip it"},
    {"a zip archive",
     {".zip"},
     "PK\x03\x04",
     4,
     "unpack it first; an archive of npy files is called .npz"},
    {"a list of JSON", {".jsonl", ".ndjson"}, NULL, 0, JSON},
    {"an SQLite database",
     {".sqlite", ".db"},
     "SQLite format 3",
     15,
     "write the table as csv (sqlite3 -header -csv)"},
};

static bool is_json(const unsigned char *begin, size_t bytes) {
    size_t i = 0;
    while (i < bytes &&
           (begin[i] == ' ' || begin[i] == '\n' || begin[i] == '\r' || begin[i] == '\t'))
        i++;
    return i < bytes && (begin[i] == '{' || begin[i] == '[');
}

static cst_status refuse(cst_context *context, const char *path, const char *name,
                         const char *cure) {
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: is %s, which cannot be read: %s. Formats that can be read: %s", path, name,
                    cure, CST_FORMATS);
}

cst_status cst_refuse_format(cst_context *context, const char *path, const unsigned char *begin,
                             size_t bytes) {
    for (size_t f = 0; f < sizeof FORMATS / sizeof *FORMATS; f++)
        for (size_t e = 0; e < 4 && FORMATS[f].extensions[e]; e++)
            if (cst_path_ends(path, FORMATS[f].extensions[e]))
                return refuse(context, path, FORMATS[f].name, FORMATS[f].cure);
    for (size_t f = 0; f < sizeof FORMATS / sizeof *FORMATS; f++)
        if (FORMATS[f].magic && bytes >= FORMATS[f].magic_bytes &&
            memcmp(begin, FORMATS[f].magic, FORMATS[f].magic_bytes) == 0)
            return refuse(context, path, FORMATS[f].name, FORMATS[f].cure);
    if (!cst_path_is_text(path) && !cst_path_column(path) && is_json(begin, bytes))
        return refuse(context, path, "JSON", JSON);
    return CST_OK;
}
