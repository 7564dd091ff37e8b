/* SPDX-License-Identifier: Apache-2.0
 *
 * The bundle file: the definition of its format, version 1.
 *
 * A bundle holds compiled kernels: per specialization and architecture one cubin,
 * its PTX, and what is needed to choose and launch it.  All integers are
 * little-endian and unsigned.  No section is padded or needs alignment, so a bundle
 * may be mapped, embedded or copied anywhere.
 *
 *   header      128 bytes
 *   index       entries     entry_count x 80 bytes
 *               attributes  attribute_count x 8 bytes
 *               blobs       blob_count x 40 bytes
 *               strings     string_bytes bytes
 *   payload     the blobs, back to back, in the order of their records
 *
 * Every byte is covered: the header's hash covers the header, its index hash the
 * index, and each blob record the hash of its bytes; reserved bytes are 0, and the
 * sections and blobs follow each other without a gap up to file_size, which is the
 * file's size.  Hashes are XXH64 with seed 0 (xxhash.com, doc/xxhash_spec.md).
 *
 * Header
 *     0  8  magic "BAREWARP"
 *     8  4  endianness: 0x0A0B0C0D as written by a little-endian machine
 *    12  4  version: 1
 *    16  8  file_size
 *    24  8  hash of the index
 *    32  4  entry_count
 *    36  4  attribute_count
 *    40  4  blob_count
 *    44  4  string_bytes
 *    48  4  blob that is the dictionary of the cubins, or 0xFFFFFFFF
 *    52  4  blob that is the dictionary of the PTX, or 0xFFFFFFFF
 *    56 64  reserved, 0
 *   120  8  hash of bytes 0..119
 *
 * Entry.  Sorted by family, arch, key (as bytes); no two alike.
 *     0  4  family    "wo_a"                  these five are offsets into strings
 *     4  4  arch      "sm_100f"
 *     8  4  key       "t28x2r_h8"
 *    12  4  symbol    the cubin's one entry point
 *    16  4  ptxas     version and flags that made the cubin
 *    20  4  blob of the cubin
 *    24  4  blob of the PTX
 *    28  4  registers per thread
 *    32  4  shared_static    bytes per CTA
 *    36  4  shared_dynamic   bytes per CTA, passed at launch
 *    40  4  barriers         named barriers
 *    44  4  threads          per CTA
 *    48  4  cluster          CTAs per cluster
 *    52  4  code_bytes       machine code
 *    56  4  parameter_bytes  size of the kernel's parameter space
 *    60  4  flags: bit 0: executes griddepcontrol.wait.  Other bits 0.
 *    64  4  first attribute
 *    68  4  number of attributes, sorted by name, no two alike
 *    72  8  reserved, 0
 *
 * Attribute: a named number that the kernel's launcher needs (box of a tensor map,
 * tile width ...), stated once, in the kernel's source.
 *     0  4  name (offset into strings)
 *     4  4  value
 *
 * Blob: one zstd frame with content size and checksum.  Equal contents are stored
 * once.  Dictionaries are raw content (no zstd dictionary header) and compressed
 * without a dictionary.
 *     0  8  offset in the file
 *     8  8  size in the file
 *    16  8  size when decompressed
 *    24  8  hash of the bytes in the file
 *    32  4  kind: 1 cubin, 2 PTX (text without a final NUL), 3 dictionary
 *    36  4  reserved, 0
 *
 * Strings: NUL-terminated printable ASCII, the section's last byte is a NUL.
 *
 * A reader of version N refuses any other version.
 */
#ifndef BW_LOADER_BUNDLE_FORMAT_H
#define BW_LOADER_BUNDLE_FORMAT_H

#define BWF_MAGIC      "BAREWARP"
#define BWF_MAGIC_SIZE 8u
#define BWF_ENDIAN     0x0A0B0C0Du
#define BWF_VERSION    1u
#define BWF_NONE       0xFFFFFFFFu

enum { BWF_HEADER_SIZE = 128, BWF_ENTRY_SIZE = 80, BWF_ATTRIBUTE_SIZE = 8, BWF_BLOB_SIZE = 40 };

enum { /* offsets in the header */
       BWF_H_MAGIC = 0,
       BWF_H_ENDIAN = 8,
       BWF_H_VERSION = 12,
       BWF_H_FILE_SIZE = 16,
       BWF_H_INDEX_HASH = 24,
       BWF_H_ENTRY_COUNT = 32,
       BWF_H_ATTRIBUTE_COUNT = 36,
       BWF_H_BLOB_COUNT = 40,
       BWF_H_STRING_BYTES = 44,
       BWF_H_CUBIN_DICTIONARY = 48,
       BWF_H_PTX_DICTIONARY = 52,
       BWF_H_RESERVED = 56,
       BWF_H_HASH = 120
};

enum { /* offsets in an entry */
       BWF_E_FAMILY = 0,
       BWF_E_ARCH = 4,
       BWF_E_KEY = 8,
       BWF_E_SYMBOL = 12,
       BWF_E_PTXAS = 16,
       BWF_E_CUBIN = 20,
       BWF_E_PTX = 24,
       BWF_E_REGISTERS = 28,
       BWF_E_SHARED_STATIC = 32,
       BWF_E_SHARED_DYNAMIC = 36,
       BWF_E_BARRIERS = 40,
       BWF_E_THREADS = 44,
       BWF_E_CLUSTER = 48,
       BWF_E_CODE_BYTES = 52,
       BWF_E_PARAMETER_BYTES = 56,
       BWF_E_FLAGS = 60,
       BWF_E_FIRST_ATTRIBUTE = 64,
       BWF_E_ATTRIBUTES = 68,
       BWF_E_RESERVED = 72
};

#define BWF_FLAG_WAITS 1u

enum { BWF_A_NAME = 0, BWF_A_VALUE = 4 }; /* offsets in an attribute */

enum { /* offsets in a blob record */
       BWF_B_OFFSET = 0,
       BWF_B_SIZE = 8,
       BWF_B_RAW_SIZE = 16,
       BWF_B_HASH = 24,
       BWF_B_KIND = 32,
       BWF_B_RESERVED = 36
};

enum { BWF_KIND_CUBIN = 1, BWF_KIND_PTX = 2, BWF_KIND_DICTIONARY = 3 };

/* Larger contents are refused: no kernel comes near, and a damaged size field must
 * not make the reader allocate the machine's memory. */
#define BWF_MAX_RAW_SIZE (64u << 20)

#endif
