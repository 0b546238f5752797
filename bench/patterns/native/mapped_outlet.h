// A write where the mailbox is mapped: the sender copies, and the stamp at the end comes last.
#pragma once
#include <cstring>
#include <vector>

#include "control.h"
#include "message.h"

namespace nbc::patterns {

class MappedOutlet {
 public:
  MappedOutlet(std::byte* mailbox, size_t bytes) : mailbox_(mailbox), bytes_(bytes), message_(bytes) {}
  std::byte* prepare() { return message_.data(); }
  void submit() {
    std::memcpy(mailbox_, message_.data(), bytes_ - kStampBytes);
    // release: a reader that sees the stamp sees the message (Mailboxes::poll)
    store_stamp(end_of(mailbox_, bytes_), load_stamp(end_of(message_.data(), bytes_)));
  }

 private:
  std::byte* mailbox_;
  size_t bytes_;
  std::vector<std::byte> message_;
};

}  // namespace nbc::patterns
