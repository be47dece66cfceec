/*
 * The checksum of model files: CRC-32C (Castagnoli, reflected, polynomial 0x1EDC6F41, initial value
 * and final exclusive-or all ones), as in RFC 3720, appendix B.4. Detects every error burst of up
 * to 32 bits, so every flipped byte. Part of the file format: docs/model-format.md.
 */
#ifndef CST_CRC32C_H
#define CST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t cst_crc32c(const uint8_t *bytes, size_t size);

#endif
