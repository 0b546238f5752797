// What travels as a SEND when mailboxes are not written by the peer's card: a header, and the bytes that were
// committed. The receiver copies them to where a write would have put them, and then all goes on as if that had
// happened.
//
//   0           4        8
//   immediate   offset   bytes…       immediate: what a write would have had as its own;
//                                     offset: in the box (mailboxes.h)
//
// The header comes from another rank: it is not believed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/verbs/mailboxes.h"

namespace nbc::verbs {

struct Parcel {
  Header header;
  const std::byte* data;
  size_t bytes;
};

// False: this is no parcel, or not one for a box.
inline bool open_parcel(const std::byte* message, size_t bytes, Parcel& out) {
  if (bytes < sizeof(Header)) return false;
  std::memcpy(&out.header, message, sizeof(Header));
  out.data = message + sizeof(Header);
  out.bytes = bytes - sizeof(Header);
  return out.header.offset <= kBoxBytes && out.bytes <= kBoxBytes - out.header.offset;
}

}  // namespace nbc::verbs
