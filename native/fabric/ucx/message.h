// What travels between two ranks as an active message of UCX: a head, and perhaps data.
//
//   kind       data                                  `value`            `bytes`            `key`
//   message    bytes for the mailbox, at `offset`    LibOF's note       0                  0
//   put        a rendezvous: for exposed memory      LibOF's immediate  how many           which memory
//   told       none: the end of a put that wrote     LibOF's immediate  what is told       0
//              nothing, with `error`
//   hello      none: answer with welcome             0                  0                  0
//   welcome    none                                  0                  0                  0
//   closed     none: this rank does no more          0                  0                  0
//   farewell   none: closed has been seen            0                  0                  0
//
// UCX may deliver a short message before a longer one that was sent first. So each has a number, and is looked at in
// its turn.
//
// UCX lets everybody send who has an address. Who is meant to has a token, too, from the card of the receiver: what
// comes with another one is dropped. A head is not believed: its numbers are checked where they are used.
#pragma once
#include <cstdint>

#include "fabric/fabric.h"

namespace nbc::ucx {

constexpr unsigned kMessageId = 0;  // of the handler

enum class Kind : uint8_t { message, put, told, hello, welcome, closed, farewell };

struct Head {
  uint64_t token;
  uint64_t bytes;
  Rank from;
  uint32_t number;  // from 0 on
  uint32_t value;
  uint32_t key;
  uint32_t offset;
  Kind kind;
  uint8_t error;
  uint16_t unused;
};
static_assert(sizeof(Head) == 40);

// In front of the address of a worker in a card (fabric/cards).
struct CardHead {
  uint32_t version;
  uint32_t eager_limit;
  uint64_t token;  // that the reader of this card has to send with
};
constexpr uint32_t kCardVersion = 1;

constexpr size_t kBoxBytes = kControlBytes + kSlotBytes;

// Where the bytes of a message are to go, of so many bytes: inside one part of the mailbox.
inline bool fits_mailbox(uint64_t offset, uint64_t bytes) {
  const uint64_t part = offset < kControlBytes ? kControlBytes : kBoxBytes;
  return offset < part && bytes <= part - offset;
}

}  // namespace nbc::ucx
