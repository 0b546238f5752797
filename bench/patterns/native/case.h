// What one row measures, as it is written on the command line: `clients=4 request=write response=send`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nbc::patterns {

enum class Transport : uint8_t { shm, verbs };
enum class Verb : uint8_t { write, send };
// own: one thread polls all mailboxes and answers. dispatcher: one thread polls and sends, and workers answer.
enum class Design : uint8_t { own, dispatcher };
// one: all threads take turns on one processor, so that a request costs what it takes of that. each: a processor for
// each thread. any: the kernel decides.
enum class Processors : uint8_t { one, each, any };

constexpr uint32_t kMostClients = 64;
constexpr uint32_t kMostBytes = 1 << 20;

struct Case {
  Transport transport = Transport::shm;
  Verb request = Verb::write;
  Verb response = Verb::write;
  Design design = Design::own;
  uint32_t clients = 1;
  uint32_t workers = 2;         // of a dispatcher; never more than clients
  uint32_t request_bytes = 64;  // multiples of 8
  uint32_t response_bytes = 64;
  uint32_t empty_pct = 0;      // of the mailboxes that the responder polls: those that belong to nobody
  uint32_t inline_bytes = 0;   // the longest message that goes with its work request
  uint32_t signal_every = 16;  // one of so many work requests asks for a completion
  uint32_t warmup_ms = 50;
  uint32_t measure_ms = 200;
  uint32_t least_requests = 20;  // of each client, however long it takes
  Processors processors = Processors::any;
  std::string device;         // of the responder; empty: the first active one
  std::string client_device;  // empty: the responder's

  bool dispatched() const { return design == Design::dispatcher; }
  // Of the responder, where requests are written.
  uint32_t mailboxes() const;
  uint32_t mailbox_of(uint32_t client) const;
  // All threads that poll, in this order: responder, clients, workers.
  uint32_t threads() const { return clients + 1 + (dispatched() ? workers : 0); }
};

// From words `name=value`. Throws FabricError, saying which word is wrong.
Case parse_case(const std::vector<std::string>& words);

const char* name_of(Transport transport);
const char* name_of(Verb verb);
const char* name_of(Design design);
const char* name_of(Processors processors);

}  // namespace nbc::patterns
