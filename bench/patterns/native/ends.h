// Both ends of a case on each transport: everything from opening a device to the last response, in a process of their
// own.
#pragma once
#include <string>

#include "control.h"
#include "processors.h"

namespace nbc::patterns {

// Memory for all mailboxes of a case, zeroed, in the mapping that its processes share.
size_t shared_mailbox_bytes(const Case& c);

void shm_client(const Case& c, Control& control, std::byte* mailboxes, uint32_t me);
void shm_responder(const Case& c, const Places& places, Control& control, std::byte* mailboxes);

// Loads libibverbs and its drivers, so that processes forked afterwards need not: they are many, and each lives for one
// case only.
void load_verbs();

// These throw FabricError; without libibverbs or a device it says what is missing.
void verbs_client(const Case& c, Control& control, uint32_t me);
void verbs_responder(const Case& c, const Places& places, Control& control);

struct DeviceFacts {
  std::string name;
  uint32_t most_inline = 0;
};
DeviceFacts describe_device(const std::string& name);

}  // namespace nbc::patterns
