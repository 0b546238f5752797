// A queue that allocates only to grow.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace nbc {

template <typename T>
class Ring {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  T& operator[](size_t i) { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& operator[](size_t i) const { return items_[(first_ + i) & (items_.size() - 1)]; }
  T& front() { return items_[first_]; }
  void push(T item) {
    if (count_ == items_.size()) grow();
    items_[(first_ + count_++) & (items_.size() - 1)] = std::move(item);
  }
  void pop(size_t n = 1) {
    first_ = (first_ + n) & (items_.size() - 1);
    count_ -= n;
  }
  void clear() { first_ = count_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }
  std::vector<T> items_;  // a power of two of them
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace nbc
