/* gate.h for a rank of node-nbc: open(directory, rank, size) returns pass(), which returns milliseconds. */
#include <node_api.h>
#include <stdlib.h>

#include "gate.h"

static napi_value failed(napi_env env) {
  napi_throw_error(env, NULL, errno ? strerror(errno) : "the start gate is broken");
  return NULL;
}

static napi_value pass(napi_env env, napi_callback_info info) {
  struct gate* gate;
  napi_value result;
  napi_get_cb_info(env, info, NULL, NULL, NULL, (void**)&gate);
  double microseconds = gate_pass(gate);
  if (microseconds < 0) return failed(env);
  napi_create_double(env, microseconds / 1000, &result);
  return result;
}

/* The gate is never freed: there is one for each rank. */
static napi_value open_gate(napi_env env, napi_callback_info info) {
  napi_value arguments[3], function;
  size_t count = 3;
  char directory[4000];
  int32_t rank, size;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if (napi_get_value_string_utf8(env, arguments[0], directory, sizeof directory, NULL) != napi_ok ||
      napi_get_value_int32(env, arguments[1], &rank) != napi_ok ||
      napi_get_value_int32(env, arguments[2], &size) != napi_ok) {
    napi_throw_type_error(env, NULL, "open(directory, rank, size)");
    return NULL;
  }
  struct gate* gate = malloc(sizeof *gate);
  if (gate == NULL || !gate_open(gate, directory, rank, size)) return failed(env);
  napi_create_function(env, "pass", NAPI_AUTO_LENGTH, pass, gate, &function);
  return function;
}

NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "open", NAPI_AUTO_LENGTH, open_gate, NULL, &function);
  napi_set_named_property(env, exports, "open", function);
  return exports;
}
