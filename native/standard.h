// The headers of the standard library that most files include, compiled once for a build (Makefile, test/Makefile).
// They take a third to half of the time to compile a file. Each file includes what it needs all the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
