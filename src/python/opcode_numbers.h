// Numbers for the names of opcodes.def that this CPython's opcode.h does not have, and for those that it keeps for its
// compiler alone. Code objects hold un-specialised opcodes only, all below 190 in 3.11 to 3.13, so that the rest of the
// byte is free for them.
#pragma once

#include "base/python.h"

#include <opcode.h>

// Pseudo instructions of the compiler (256 and above), here the decoded form of others: see instructions.h.
#if PY_MINOR_VERSION >= 12
#undef LOAD_METHOD
#define LOAD_METHOD 190
#endif
#if PY_MINOR_VERSION >= 13
#undef LOAD_CLOSURE
#define LOAD_CLOSURE 191
#endif

// Gone after 3.11, but most of them go on as decoded forms.
#if PY_MINOR_VERSION >= 12
#define ASYNC_GEN_WRAP 192
#define IMPORT_STAR 193
#define JUMP_IF_FALSE_OR_POP 194
#define JUMP_IF_TRUE_OR_POP 195
#define LIST_TO_TUPLE 196
#define LOAD_CLASSDEREF 197
#define POP_JUMP_BACKWARD_IF_FALSE 198
#define POP_JUMP_BACKWARD_IF_NONE 199
#define POP_JUMP_BACKWARD_IF_NOT_NONE 200
#define POP_JUMP_BACKWARD_IF_TRUE 201
#define POP_JUMP_FORWARD_IF_FALSE 202
#define POP_JUMP_FORWARD_IF_NONE 203
#define POP_JUMP_FORWARD_IF_NOT_NONE 204
#define POP_JUMP_FORWARD_IF_TRUE 205
#define PRECALL 206
#define PREP_RERAISE_STAR 207
#define PRINT_EXPR 208
#define UNARY_POSITIVE 209
#endif

// Gone after 3.12.
#if PY_MINOR_VERSION >= 13
#define FORMAT_VALUE 210
#define KW_NAMES 211
#endif

// New in 3.12.
#if PY_MINOR_VERSION < 12
#define BINARY_SLICE 212
#define CALL_INTRINSIC_1 213
#define CALL_INTRINSIC_2 214
#define CLEANUP_THROW 215
#define END_FOR 216
#define END_SEND 217
#define LOAD_FAST_AND_CLEAR 218
#define LOAD_FAST_CHECK 219
#define LOAD_FROM_DICT_OR_DEREF 220
#define LOAD_FROM_DICT_OR_GLOBALS 221
#define LOAD_LOCALS 222
#define LOAD_SUPER_ATTR 223
#define RETURN_CONST 224
#define STORE_SLICE 225
#endif

// New in 3.13.
#if PY_MINOR_VERSION < 13
#define CALL_KW 226
#define CONVERT_VALUE 227
#define LOAD_FAST_LOAD_FAST 228
#define SET_FUNCTION_ATTRIBUTE 229
#define STORE_FAST_LOAD_FAST 230
#define STORE_FAST_STORE_FAST 231
#define TO_BOOL 232
#endif

// Names of ours: a comparison whose result becomes a bool (a flag of 3.13's COMPARE_OP).
#define COMPARE_OP_TO_BOOL 233
