/* What Debian's libzip wants of OpenSSL and bzip2, none of which is in a binary wheel: functions
 * that fail. The library refuses encrypted members and those of bzip2 before libzip reads them.
 * scripts/wheel.sh; no part of any other build. */
#define FAILS(name, result)                                                                        \
    __attribute__((visibility("default"))) long name(void);                                        \
    long name(void) {                                                                              \
        return result;                                                                             \
    }

FAILS(AES_encrypt, 0)
FAILS(AES_set_encrypt_key, -1)
FAILS(EVP_sha1, 0)
FAILS(HMAC_CTX_free, 0)
FAILS(HMAC_CTX_new, 0)
FAILS(HMAC_Final, 0)
FAILS(HMAC_Init_ex, 0)
FAILS(HMAC_Update, 0)
FAILS(PKCS5_PBKDF2_HMAC_SHA1, 0)
FAILS(RAND_bytes, 0)
FAILS(BZ2_bzCompress, -9) /* BZ_CONFIG_ERROR */
FAILS(BZ2_bzCompressEnd, -9)
FAILS(BZ2_bzCompressInit, -9)
FAILS(BZ2_bzDecompress, -9)
FAILS(BZ2_bzDecompressEnd, -9)
FAILS(BZ2_bzDecompressInit, -9)
