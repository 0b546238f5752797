// Datagram sockets by which processes of a job wake one another where a futex cannot: those that sleep on descriptors.
// A datagram says nothing but that there is something to look at.
//
// The name is in the abstract namespace, so no file is left behind. It holds 128 random bits of the rank
// (RankLine::key), so no other process can take it before the rank does, or by accident. Ranks of one job must share a
// network namespace.
#pragma once
#include "fabric/descriptor.h"
#include "job/rank_pipe.h"
#include "job/segment.h"

namespace nbc::job {

// What a rank may be called for; part of the socket's name.
enum class Call : char { bootstrap = 'b', caller = 'c', progress = 'p' };

class RankSocket {
 public:
  // Takes the name of the rank, which this process has claimed. False: the system refused (errno).
  bool open(const Segment& segment, Rank rank, Call what);
  // Readable when the rank was called; −1 where open() failed or was not called.
  int descriptor() const { return socket_.get(); }
  void drain();

 private:
  Descriptor socket_;
};

// Sends from any rank to any other. A full socket has something to read already; a missing one belongs to nobody who
// sleeps.
class RankCaller {
 public:
  // Makes the socket, which call() does otherwise when it is first needed. False: the system refused (errno).
  bool prepare();
  // False: nobody has been called: the other rank has not opened (it looks when it opens), the system refused, or the
  // other rank has no such socket that this one sees.
  bool call(const Segment& segment, Rank rank, Call what);
  // The same for its event loop.
  bool call_loop(const Segment& segment, Rank rank);

 private:
  Descriptor socket_;
  PipeCaller pipes_;
};

}  // namespace nbc::job
