// The socket by which nbctop sees a rank (src/cli/nbctop.ts): a client that connects gets one line of JSON, and the
// connection is closed. Nothing is read, and nothing is kept for anybody, so there is nothing that a client could send
// or hold back. Its file is in a folder that only this user may enter (src/monitor.ts).
//
// The caller holds a lock (addon/reporter.cc).
#pragma once
#include <functional>
#include <string>

#include "fabric/descriptor.h"

namespace nbc::addon {

class Monitor {
 public:
  // An empty path, or one where nobody can listen: there is no socket.
  explicit Monitor(const std::string& path);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();
  // -1: there is none.
  int descriptor() const { return socket_.get(); }
  // Takes one connection, if there is any, and answers it if it is of this user.
  void answer(const std::function<std::string()>& line);

 private:
  Descriptor socket_;
  std::string path_;
};

}  // namespace nbc::addon
