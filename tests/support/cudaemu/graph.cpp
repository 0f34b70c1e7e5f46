#include "tests/support/cudaemu/graph.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "tests/support/cudaemu/stats.h"

namespace hearth::cudaemu {
namespace {
std::atomic<int> n_captures = 0;
}

void Graph::run() const {
  count(&Stats::graph_launches);
  std::minstd_rand random(config().seed);
  std::vector<size_t> n_missing(nodes.size()), ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    n_missing[i] = nodes[i].depends_on.size();
    if (n_missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    size_t chosen = 0;
    if (config().schedule == Schedule::kReverse) chosen = ready.size() - 1;
    if (config().schedule == Schedule::kRandom) chosen = random() % ready.size();
    const size_t i = ready[chosen];
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(chosen));
    nodes[i].run();
    for (size_t j = 0; j < nodes.size(); ++j)
      for (const int d : nodes[j].depends_on)
        if (static_cast<size_t>(d) == i && --n_missing[j] == 0) ready.push_back(j);
  }
}

Capture::Capture(Stream& origin) : streams_{&origin} { ++n_captures; }

void Capture::join(Stream& stream) { streams_.push_back(&stream); }

void Capture::add(Stream& stream, Operation operation) {
  graph_.nodes.push_back({std::move(operation), stream.last_nodes});
  stream.last_nodes = {static_cast<int>(graph_.nodes.size()) - 1};
}

bool Capture::end() {
  // Joined means that every node is before the origin's last one.
  std::vector<bool> is_before(graph_.nodes.size());
  std::vector<int> open = origin().last_nodes;
  while (!open.empty()) {
    const auto i = static_cast<size_t>(open.back());
    open.pop_back();
    if (is_before[i]) continue;
    is_before[i] = true;
    open.insert(open.end(), graph_.nodes[i].depends_on.begin(), graph_.nodes[i].depends_on.end());
  }
  ended_ = true;
  --n_captures;
  const std::vector<Stream*> streams = std::move(streams_);
  for (Stream* stream : streams) {
    stream->last_nodes.clear();
    stream->capture = nullptr;
  }
  return std::find(is_before.begin(), is_before.end(), false) == is_before.end();
}

bool is_capturing_anywhere() { return n_captures > 0; }

}  // namespace hearth::cudaemu
