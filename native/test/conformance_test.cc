// The conformance suite (conformance.h) over what needs no device: shared memory, TCP on loopback, and mixed jobs.
#include <memory>
#include <string>
#include <vector>

#include "fabric/mixed/mixed_fabric.h"
#include "test/conformance.h"
#include "test/tcp_job.h"
#include "test/thread_network.h"
#include "test/two_networks.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using conformance::MakeRank;
using conformance::Subject;

std::vector<RankOptions> modes(bool cross_memory) {
  std::vector<RankOptions> all = {mode(true), mode(false)};
  for (RankOptions& options : all) options.cross_memory = cross_memory;
  return all;
}

MakeRank shm_job(Rank size) {
  return [segment = make_segment(size)](Rank rank, const RankOptions& options) {
    return shm_fabric(segment, rank, options);
  };
}

// Ranks of one process, as threads of runRanks() are: they copy from one another's memory.
MakeRank threads_job(Rank size) {
  return [segment = make_shared_segment(size)](Rank rank, const RankOptions& options) {
    return shm_fabric(segment, rank, options);
  };
}

MakeRank tcp_job(Rank size) {
  return [job = std::make_shared<TcpJob>(size)](Rank rank, const RankOptions& options) {
    TcpOptions tcp;
    tcp.eager_limit = options.eager_limit;
    return job->fabric(rank, tcp);
  };
}

// Two networks, where neighbours by number are reached by the one and the others by the other.
MakeRank networks_job(Rank size) {
  struct Shared {
    explicit Shared(Rank size) : one(size), other(size) {}
    TcpJob one, other;
  };
  return [shared = std::make_shared<Shared>(size)](Rank rank, const RankOptions& options) {
    TcpOptions tcp;
    tcp.eager_limit = options.eager_limit;
    return beside_tcp(shared->one.fabric(rank, tcp), shared->other, rank, options.eager_limit);
  };
}

// Two ranks on each host, and a network of threads between them.
MakeRank mixed_job(Rank size) {
  struct Shared {
    explicit Shared(Rank size) : segment(make_segment(size)), network(size) {}
    const std::shared_ptr<job::Segment> segment;
    ThreadNetwork network;
  };
  return [shared = std::make_shared<Shared>(size)](Rank rank, const RankOptions& options) {
    const std::string host(1, static_cast<char>('a' + rank / 2));
    const shm::ShmOptions shm{rank, options.eager_limit, options.cross_memory, true, host};
    auto near = std::make_unique<shm::ShmFabric>(shared->segment, shm, shm::ShmFabric::Opening::later);
    auto far = std::make_unique<ThreadFabric>(shared->network, rank, near->memory());
    return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far));
  };
}

std::vector<RankOptions> all_modes() {
  std::vector<RankOptions> all = modes(true);
  for (const RankOptions& options : modes(false)) all.push_back(options);
  return all;
}

const bool registered = conformance::conforms({"shm", shm_job, all_modes()}) &&
                        conformance::conforms({"threads", threads_job, all_modes()}) &&
                        conformance::conforms({"tcp", tcp_job, modes(true)}) &&
                        conformance::conforms({"networks", networks_job, modes(true)}) &&
                        conformance::conforms({"mixed", mixed_job, all_modes()});

}  // namespace

TEST_MAIN(240)
