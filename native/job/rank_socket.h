// Datagram sockets by which processes of a job wake one another where a futex cannot: whoever sleeps on descriptors. A
// datagram says nothing but that there is something to look at.
//
// The name is in the abstract namespace, so no file is left behind, and holds the inode of the job's file, which is
// nobody else's while the job lives. Ranks of one job must share a network namespace for that.
#pragma once
#include "job/segment.h"

namespace nbc::shm {

// What a rank may be called for; part of the socket's name.
enum class Call : char { bootstrap = 'b', caller = 'c', progress = 'p', loop = 'l' };

class RankSocket {
 public:
  RankSocket() = default;
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

  // Takes the name of the rank. False: the system refused (errno).
  bool open(const Segment& segment, Rank rank, Call what);
  // Readable when the rank was called; −1 where open() failed or was not called.
  int descriptor() const { return socket_; }
  void drain();

 private:
  int socket_ = -1;
};

// Sends from any rank to any other. A full socket has something to read already; a missing one belongs to nobody who
// sleeps.
class RankCaller {
 public:
  RankCaller() = default;
  ~RankCaller();
  RankCaller(const RankCaller&) = delete;
  RankCaller& operator=(const RankCaller&) = delete;

  // Makes the socket, which call() does otherwise when it is first needed. False: the system refused (errno).
  bool prepare();
  // False: nobody has been called, since the system refused or the other rank has no such socket that this one sees.
  bool call(const Segment& segment, Rank rank, Call what);

 private:
  int socket_ = -1;
};

}  // namespace nbc::shm
