// The copies of buffers that pending operations use where they cannot hold the memory of the buffers itself
// (buffer_pin.h), by the slots of their requests. What an operation has received goes back into the buffer when
// JavaScript settles the request, before anybody can see that it is complete. All by the thread of the environment.
//
// A buffer may be larger than what is received into it, and the program may write to the rest meanwhile. So only bytes
// that have changed in the copy are written back: a second copy tells which.
#pragma once
#include <napi.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.h"

namespace nbc::addon {

class Copies {
 public:
  explicit Copies(napi_env env) : env_(env) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Before an operation starts with a copy of the view. `receives`: it may write to the copy. `persistent`: it stays
  // until drop(), and is made again by refresh(). False: there is no memory.
  bool add(uint32_t slot, napi_value view, const Pinned& pinned, bool receives, bool persistent);
  // Before a persistent operation starts again. False: a buffer is detached.
  bool refresh(uint32_t slot);
  // The operation has ended: what it has received goes into its buffer. False: that is detached, and the data is lost.
  bool collect(uint32_t slot);
  void drop(uint32_t slot);
  // The environment goes on, or ends: then its objects are not touched.
  void drop_all(bool environment_ends);

 private:
  struct Copy {
    napi_ref view;  // keeps the object, not its memory
    Pinned pinned;
    std::unique_ptr<std::byte[]> before;  // what the copy was made of; null: nothing is received into it
    bool persistent;
  };

  bool find_memory(const Copy& copy, std::byte*& out) const;

  napi_env env_;
  std::unordered_map<uint32_t, std::vector<Copy>> by_slot_;
};

}  // namespace nbc::addon
