/*
 * CRC-32C by a table of 256 entries, made on the stack (files are a few kilobytes). The last step
 * of writing a model and the first of reading one. docs/model-format.md#checksum.
 */
#include "model/crc32c.h"

uint32_t cst_crc32c(const uint8_t *bytes, size_t size) {
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ ((value & 1) ? UINT32_C(0x82f63b78) : 0);
        table[i] = value;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}
