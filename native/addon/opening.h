// What a world is opened with: the place of this rank in its job, and the options of init().
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fabric/mixed/two_networks.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/verbs/options.h"

namespace nbc::addon {

struct Opening {
  Rank rank = 0;
  Rank size = 0;
  int job_fd = -1;        // -1: a job of its own
  Rank threads = 0;       // ranks of this process, each of which is a thread; 0: the process is the rank
  bool launched = true;   // false: a job of runRanks(), all of whose ranks are threads of this process
  std::string transport;  // "auto", "shm", "tcp", "verbs" or "ucx"
  // By rank, with "auto", where ranks of several hosts have met; else empty.
  std::vector<mixed::TwoNetworks::Way> ways;
  std::string host;  // ranks with equal ones are on one host; empty: the machine
  struct Tcp {
    std::vector<std::string> addresses;  // of all ranks: numeric, without port
    std::vector<uint32_t> ports;
    std::vector<uint32_t> card_ports;  // of ranks that are reached by verbs, where others are by TCP
    std::vector<uint32_t> hosts;       // of all ranks: equal numbers, equal machines
    uint32_t processors = 1;           // for all ranks of this machine
    std::string secret;
  } tcp;
  std::vector<uint32_t> neighbours;  // processes of ranks to be watched, by rank; 0: not (job/watch.h)

  bool is_thread() const { return threads > 0; }

  int64_t peer_timeout = 0;      // milliseconds: how long a peer may be silent
  int32_t tcp_eager_limit = -1;  // bytes, to ranks that are reached by TCP; -1: as fits the job
  int64_t watchdog = 0;          // milliseconds (addon/reporter.h); 0: none
  std::string monitor;           // the path of a socket (addon/monitor.h); empty: none
  EngineOptions engine;
  shm::ShmOptions shm;
  verbs::VerbsOptions verbs;

  template <typename Reader>
  void read_options(Reader& from) {
    from("peerTimeout", peer_timeout);
    from("tcp.eagerLimit", tcp_eager_limit);
    from("watchdog", watchdog);
    from("monitor", monitor);
    engine.read_options(from);
    shm.read_options(from);
    verbs.read_options(from);
  }
};

}  // namespace nbc::addon
