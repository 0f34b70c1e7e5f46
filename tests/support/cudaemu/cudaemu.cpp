// cudaemu.cpp - fiber engine, fake CUDA runtime, cuBLAS stand-in.  Compile WITHOUT -fsanitize flags (it
// annotates fiber switches and barriers itself, through weak symbols) and link into sanitized programs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cublas_v2.h>
#include <pthread.h>
#include <sys/mman.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>
#include "tests/support/cudaemu/cudaemu.h"
#define WEAK extern "C" __attribute__((weak))
WEAK void __sanitizer_start_switch_fiber(void**, const void*, size_t);
WEAK void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
WEAK void* __tsan_create_fiber(unsigned);
WEAK void* __tsan_get_current_fiber(void);
WEAK void __tsan_switch_to_fiber(void*, unsigned);
WEAK void __tsan_destroy_fiber(void*);
WEAK void __tsan_acquire(void*);
WEAK void __tsan_release(void*);

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim, gridDim;

#if defined(__x86_64__) && !defined(CUDAEMU_UCONTEXT)
extern "C" void cudaemu_swap(void** save, void* load);
asm(R"(.text
.p2align 4
.globl cudaemu_swap
.type cudaemu_swap,@function
cudaemu_swap:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
.size cudaemu_swap,.-cudaemu_swap
)");
static void* make_ctx(char* top, void (*entry)()) {
  void** p = (void**)((uintptr_t)top & ~uintptr_t(15));
  *--p = nullptr;
  *--p = (void*)entry;
  for (int i = 0; i < 6; i++) *--p = nullptr;
  return p;
}
#else
#include <ucontext.h>
static void cudaemu_swap(void** save, void* load) {
  ucontext_t me;
  *save = &me;
  swapcontext(&me, (ucontext_t*)load);
}
static void* make_ctx(char* top, void (*entry)()) {
  auto* u = new ucontext_t;
  getcontext(u);
  u->uc_stack = {top - (48 << 10), 0, 48 << 10};
  u->uc_link = nullptr;
  makecontext(u, entry, 0);
  return u;
}
#endif

namespace cudaemu {
void die(const char* fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, "cudaemu: block (%u,%u,%u) thread (%u,%u,%u): ", blockIdx.x, blockIdx.y, blockIdx.z,
          threadIdx.x, threadIdx.y, threadIdx.z);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  abort();
}
static long env(const char* n, long d) {
  const char* s = getenv(n);
  return s ? atol(s) : d;
}
Config& config() {
  static Config c = [] {
    Config c;
    c.vram = size_t(env("CUDAEMU_VRAM_MB", 8192)) << 20;
    c.schedule = env("CUDAEMU_SCHEDULE", 0), c.seed = env("CUDAEMU_SEED", 1);
    c.block_workers = env("CUDAEMU_BLOCK_WORKERS", 1), c.jitter_us = env("CUDAEMU_JITTER_US", 0),
    c.guard = env("CUDAEMU_GUARD", 0);
    return c;
  }();
  return c;
}
static std::mutex g_stat_m;
static Stats g_stats{};
Stats stats() {
  std::lock_guard l(g_stat_m);
  return g_stats;
}
void reset_stats() {
  std::lock_guard l(g_stat_m);
  size_t u = g_stats.vram_used;
  g_stats = {};
  g_stats.vram_used = g_stats.vram_peak = u;
}
template <class F>
static void stat(F f) {
  std::lock_guard l(g_stat_m);
  f(g_stats);
}

// ---- fiber engine -------------------------------------------------------------------------------
struct Copy {
  void* d;
  const void* s;
  size_t n;
};
struct Fiber {
  void *sp = nullptr, *tsan = nullptr, *fake = nullptr;
  char* stack = nullptr;
  uint3 tid{};
  int idx = 0;
  enum St { Ready, Barrier, Warp, Done } st = Done;
  Loc loc;
  std::deque<std::vector<Copy>> cp;
};
struct Group {
  uint32_t mask, arrived, left;
  int kind;
  bool used, open;
  Loc loc;
  char sync;
  alignas(32) unsigned char val[32][32];
};
struct Warp {
  uint32_t live;
  int hi;
  Group g[64];
};  // hi: groups touched so far
static void fiber_main();

struct Engine {
  static constexpr size_t kStack = 256 << 10;
  std::vector<std::unique_ptr<Fiber>> f;
  std::vector<std::unique_ptr<Warp>> w;
  void *main_sp{}, *main_tsan{}, *main_fake{}, *main_bottom{};
  size_t main_size{};
  int n = 0, live = 0, sched = 0, bar_n = 0, bar_phase = 0, acc[3]{}, res[2][3]{};
  char bar_sync[2], start_sync, end_sync;
  Loc bar_loc;
  uint16_t rq[2048];
  unsigned head = 0, tail = 0;
  uint64_t switches = 0;
  Fiber* cur = nullptr;
  const std::function<void()>* body = nullptr;
  unsigned char* dyn = nullptr;
  std::minstd_rand rng;

  Engine() {
    pthread_attr_t a;
    pthread_getattr_np(pthread_self(), &a);
    pthread_attr_getstack(&a, &main_bottom, &main_size);
    pthread_attr_destroy(&a);
    if (__tsan_get_current_fiber) main_tsan = __tsan_get_current_fiber();
  }
  ~Engine() {
    for (auto& x : f) {
      if (__tsan_destroy_fiber) __tsan_destroy_fiber(x->tsan);
      munmap(x->stack - 4096, kStack + 4096);
    }
  }
  void push(Fiber* x) {
    x->st = Fiber::Ready;
    rq[tail++ & 2047] = uint16_t(x->idx);
  }
  void push_front(Fiber* x) {
    x->st = Fiber::Ready;
    rq[--head & 2047] = uint16_t(x->idx);
  }
  Fiber* pop() {
    if (head == tail) return nullptr;
    if (sched == 2) std::swap(rq[head & 2047], rq[(head + rng() % (tail - head)) & 2047]);
    return f[rq[head++ & 2047]].get();
  }
  void go(Fiber* from, Fiber* to) {  // nullptr = the worker's own stack
    void** fake = from ? &from->fake : &main_fake;
    if (to) threadIdx = to->tid, cur = to;
    switches++;
    if (__sanitizer_start_switch_fiber)
      __sanitizer_start_switch_fiber(fake, to ? to->stack : main_bottom, to ? kStack : main_size);
    if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to ? to->tsan : main_tsan, 1 /* no_sync */);
    cudaemu_swap(from ? &from->sp : &main_sp, to ? to->sp : main_sp);
    if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(*fake, nullptr, nullptr);
  }
  static void release(char& c) {
    if (__tsan_release) __tsan_release(&c);
  }
  static void acquire(char& c) {
    if (__tsan_acquire) __tsan_acquire(&c);
  }
  void wait(Fiber* me, Fiber::St st, Loc loc) { me->st = st, me->loc = loc, go(me, pop()); }
  void prepare(dim3 b) {
    n = int(b.x * b.y * b.z);
    for (int i = int(f.size()); i < n; i++) {
      auto x = std::make_unique<Fiber>();
      char* m = (char*)mmap(nullptr, kStack + 4096, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      mprotect(m, 4096, PROT_NONE);
      x->stack = m + 4096, x->idx = i;
      x->sp =
          make_ctx(x->stack + kStack - (i * 192) % 4096, fiber_main);  // stagger: avoid cache-set aliasing
      if (__tsan_create_fiber) x->tsan = __tsan_create_fiber(0);
      f.push_back(std::move(x));
      if (i % 32 == 0) w.push_back(std::make_unique<Warp>());
    }
    for (int i = 0; i < n; i++) f[i]->tid = {i % b.x, i / b.x % b.y, i / (b.x * b.y)};
  }
  void run_block() {
    head = tail = 0, live = n, bar_n = 0;
    for (int i = 0; i < n; i += 32) w[i / 32]->live = n - i >= 32 ? ~0u : (1u << (n - i)) - 1;
    for (int i = 0; i < n; i++) push(f[sched == 1 ? n - 1 - i : i].get());
    release(start_sync);
    go(nullptr, pop());
    acquire(end_sync);
    if (!live) return;
    for (int i = 0, shown = 0; i < n && shown < 8; i++)
      if (f[i]->st != Fiber::Done)
        fprintf(stderr, "  thread %d waits at %s %s:%u\n", i,
                f[i]->st == Fiber::Barrier ? "__syncthreads" : "warp op", f[i]->loc.f, f[i]->loc.l),
            shown++;
    die("deadlock: %d of %d threads never arrive", live, n);
  }
  void finish_barrier() {
    std::copy_n(acc, 3, res[bar_phase]);
    bar_phase ^= 1, bar_n = 0;
    for (int i = 0; i < n; i++)
      if (Fiber* x = f[sched == 1 ? n - 1 - i : i].get(); x->st == Fiber::Barrier) push(x);
  }
  const int* barrier(int pred, Loc loc) {
    int ph = bar_phase;
    if (bar_n == 0)
      bar_loc = loc, acc[0] = 0, acc[1] = 1, acc[2] = 0;
    else if (loc.l != bar_loc.l || strcmp(loc.f, bar_loc.f))
      die("divergent __syncthreads: %s:%u and %s:%u", loc.f, loc.l, bar_loc.f, bar_loc.l);
    acc[0] += pred != 0, acc[1] &= pred != 0, acc[2] |= pred != 0;
    release(bar_sync[ph]);
    if (++bar_n == live)
      finish_barrier();
    else
      wait(cur, Fiber::Barrier, loc);
    acquire(bar_sync[ph]);
    return res[ph];
  }
  bool complete(Warp& wp, Group& g) {
    if (!g.used || !g.open || g.arrived != (g.mask & wp.live)) return false;
    g.open = false;
    Fiber* me = cur;
    for (uint32_t m = g.arrived;
         m;) {  // front of the queue: a warp runs until its next barrier, which keeps 32 stacks hot
      int i = sched == 1 ? __builtin_ctz(m) : 31 - __builtin_clz(m);
      m &= ~(1u << i);
      if (Fiber* x = f[(me->idx & ~31) | i].get(); x->st == Fiber::Warp && x != me) push_front(x);
    }
    return true;
  }
  Arrival arrive(uint32_t mask, const void* v, size_t sz, int kind, Loc loc) {
    Fiber* me = cur;
    int l = me->idx & 31;
    Warp& wp = *w[me->idx >> 5];
    if (!(mask >> l & 1)) die("warp op with a mask that lacks the caller (%s:%u)", loc.f, loc.l);
    Group *g = nullptr, *free = nullptr;
    for (int i = 0; i < wp.hi && !g; i++) {
      if (wp.g[i].used && wp.g[i].open && wp.g[i].mask == mask) g = &wp.g[i];
      if (!wp.g[i].used && !free) free = &wp.g[i];
    }
    if (!g && !free) free = &wp.g[wp.hi++];
    if (!g)
      g = free, g->mask = mask, g->arrived = g->left = 0, g->kind = kind, g->used = g->open = true,
      g->loc = loc;
    if (g->kind != kind || g->loc.l != loc.l)
      die("lanes of a warp at different warp ops: %s:%u and %s:%u", loc.f, loc.l, g->loc.f, g->loc.l);
    if (sz == 4)
      memcpy(g->val[l], v, 4);
    else if (sz)
      memcpy(g->val[l], v, sz);
    g->arrived |= 1u << l;
    release(g->sync);
    if (!complete(wp, *g)) wait(me, Fiber::Warp, loc);
    acquire(g->sync);
    return {g->arrived, g->val, g};
  }
  void exit_thread() {
    Fiber* me = cur;
    me->st = Fiber::Done, me->cp.clear();
    Warp& wp = *w[me->idx >> 5];
    wp.live &= ~(1u << (me->idx & 31));
    live--;
    for (int i = 0; i < wp.hi && wp.live; i++) complete(wp, wp.g[i]);
    if (live && bar_n == live) finish_barrier();
    release(end_sync);
    go(me, pop());
  }
};
static thread_local Engine* E;
static void fiber_main() {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  for (;;) {
    Engine::acquire(E->start_sync);
    (*E->body)();
    E->exit_thread();
  }
}
void* dyn_smem() { return E->dyn; }
int lane() { return E->cur->idx & 31; }
void block_barrier(Loc l) { E->barrier(0, l); }
int block_barrier_reduce(int p, int op, Loc l) { return E->barrier(p, l)[op]; }
Arrival warp_arrive(uint32_t m, const void* v, size_t n, int kind, Loc l) {
  return E->arrive(m, v, n, kind, l);
}
void warp_leave(const Arrival& a) {
  auto* g = (Group*)a.group;
  if ((g->left |= 1u << lane()) == g->arrived) g->used = false;
}
void async_copy(void* d, const void* s, size_t n) {
  auto& q = E->cur->cp;
  if (q.empty()) q.emplace_back();
  q.back().push_back({d, s, n});
}
void async_commit() {
  auto& q = E->cur->cp;
  if (q.empty()) q.emplace_back();
  q.emplace_back();
}
void async_wait(int keep) {  // newest entry of cp is the open group
  auto& q = E->cur->cp;
  while (int(q.size()) - 1 > keep) {
    for (auto& c : q.front()) memcpy(c.d, c.s, c.n);
    q.pop_front();
  }
}

struct Pool {  // extra OS threads for block_workers > 1
  std::mutex m;
  std::condition_variable cv;
  std::deque<std::function<void()>> q;
  void add(std::function<void()> fn) {
    {
      std::lock_guard l(m);
      q.push_back(std::move(fn));
    }
    cv.notify_one();
    static int started = 0;
    for (; started < config().block_workers - 1; started++)
      std::thread([this] {
        for (;;) {
          std::unique_lock l(m);
          cv.wait(l, [&] { return !q.empty(); });
          auto fn = std::move(q.front());
          q.pop_front();
          l.unlock();
          fn();
        }
      }).detach();
  }
};
static void run_blocks(const Launch& L, const std::function<void()>& body, unsigned first, unsigned step) {
  if (!E) {
    thread_local Engine own;
    E = &own;
  }
  Engine& e = *E;
  e.sched = config().schedule, e.prepare(L.block), e.body = &body, e.rng.seed(config().seed), e.switches = 0;
  blockDim = L.block, gridDim = L.grid;
  void* dyn = nullptr;
  if (posix_memalign(&dyn, 128, L.smem ? L.smem : 1)) die("smem");
  e.dyn = (unsigned char*)dyn;
  uint64_t total = uint64_t(L.grid.x) * L.grid.y * L.grid.z;
  for (uint64_t b = first; b < total; b += step) {
    blockIdx = {unsigned(b % L.grid.x), unsigned(b / L.grid.x % L.grid.y),
                unsigned(b / (uint64_t(L.grid.x) * L.grid.y))};
    memset(dyn, 0xff, L.smem);  // NaN pattern: uninitialised shared memory shows
    e.run_block();
  }
  free(dyn);
  stat([&](Stats& s) { s.switches += e.switches; });
}
static void run_grid(const Launch& L, const std::function<void()>& body) {
  static Pool& pool = *new Pool;
  unsigned n = unsigned(std::max(1, config().block_workers));
  std::mutex m;
  std::condition_variable cv;
  unsigned left = n - 1;
  for (unsigned i = 1; i < n; i++)
    pool.add([&, i] {
      run_blocks(L, body, i, n);
      std::lock_guard l(m);
      if (!--left) cv.notify_one();
    });
  run_blocks(L, body, 0, n);
  std::unique_lock l(m);
  cv.wait(l, [&] { return !left; });
}

// ---- memory -------------------------------------------------------------------------------------
struct Alloc {
  size_t size, charge;
  bool device, owned;
  char* map;
  size_t map_len;
};
static std::mutex g_mem_m;
static std::map<uintptr_t, Alloc> g_mem;
static int g_active = 0;  // device operations running now (guard mode)
static std::map<const void*, int> g_smem_limit;
struct Fault {
  int after;
  cudaError_t err;
};
static std::map<std::string, Fault> g_fault;
static thread_local cudaError_t t_last = cudaSuccess;
static cudaError_t ret(cudaError_t e) {
  if (e) t_last = e;
  return e;
}
void fail_next(const char* api, int after, cudaError_t e) {
  std::lock_guard l(g_mem_m);
  g_fault[api] = {after, e};
}
static cudaError_t fault(const char* api) {
  std::lock_guard l(g_mem_m);
  auto it = g_fault.find(api);
  if (it == g_fault.end() || it->second.after-- > 0) return cudaSuccess;
  auto e = it->second.err;
  g_fault.erase(it);
  return e;
}
#define FAULT() \
  if (cudaError_t fe_ = cudaemu::fault(__func__)) return ret(fe_)
static const Alloc* find(const void* p, size_t n = 1) {  // caller holds g_mem_m
  auto it = g_mem.upper_bound((uintptr_t)p);
  if (it == g_mem.begin()) return nullptr;
  --it;
  return (uintptr_t)p + n <= it->first + it->second.size ? &it->second : nullptr;
}
bool check_pointer(const void* p, const char*) {
  std::lock_guard l(g_mem_m);
  return !p || find(p);
}
static void protect(int prot) {
  for (auto& [k, a] : g_mem)
    if (a.device && a.map) mprotect(a.map, a.map_len, prot);
}
struct DeviceScope {
  bool on = config().guard;
  DeviceScope() {
    if (on) {
      std::lock_guard l(g_mem_m);
      if (!g_active++) protect(PROT_READ | PROT_WRITE);
    }
  }
  ~DeviceScope() {
    if (on) {
      std::lock_guard l(g_mem_m);
      if (!--g_active) protect(PROT_NONE);
    }
  }
};
static cudaError_t alloc(void** out, size_t n, bool device) {
  std::lock_guard l(g_mem_m);
  *out = nullptr;
  if (!n) return cudaSuccess;
  Alloc a{n, (n + 511) & ~size_t(511), device, true, nullptr, 0};
  if (device && (g_stats.vram_used + a.charge > config().vram)) return cudaErrorMemoryAllocation;
  void* p = nullptr;
  if (device && config().guard) {
    a.map_len = (n + 255 + 4095) & ~size_t(4095);
    a.map = (char*)mmap(nullptr, a.map_len + 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mprotect(a.map + a.map_len, 4096, PROT_NONE);
    p = (void*)((uintptr_t)(a.map + a.map_len - n) & ~uintptr_t(255));
  } else if (posix_memalign(&p, 256, n))
    return cudaErrorMemoryAllocation;
  if (n <= (64u << 20)) memset(p, 0xff, n);
  if (device && a.map && !g_active) mprotect(a.map, a.map_len, PROT_NONE);
  if (device)
    stat([&](Stats& s) { s.vram_used += a.charge, s.vram_peak = std::max(s.vram_peak, s.vram_used); });
  g_mem[(uintptr_t)p] = a;
  *out = p;
  return cudaSuccess;
}
static cudaError_t release(void* p, bool device) {
  std::lock_guard l(g_mem_m);
  if (!p) return cudaSuccess;
  auto it = g_mem.find((uintptr_t)p);
  if (it == g_mem.end() || it->second.device != device || !it->second.owned) return cudaErrorInvalidValue;
  Alloc a = it->second;
  g_mem.erase(it);
  if (device) stat([&](Stats& s) { s.vram_used -= a.charge; });
  if (a.map)
    munmap(a.map, a.map_len + 4096);
  else
    free(p);
  return cudaSuccess;
}
}  // namespace cudaemu
using namespace cudaemu;

// ---- streams, events, graphs ----------------------------------------------------------------------
using Op = std::function<void()>;
struct CUgraph_st {
  struct Node {
    Op op;
    std::vector<int> deps;
  };
  std::vector<Node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st> g;
};
struct Capture {
  std::shared_ptr<CUgraph_st> g = std::make_shared<CUgraph_st>();
  CUstream_st* origin;
  std::vector<CUstream_st*> joined;
};
struct EvState {
  std::mutex m;
  std::condition_variable cv;
  uint64_t rec = 0, done = 0;
  std::chrono::steady_clock::time_point t;
  void wait(uint64_t s) {
    std::unique_lock l(m);
    cv.wait(l, [&] { return done >= s; });
  }
};
struct CUevent_st {
  std::shared_ptr<EvState> s = std::make_shared<EvState>();
  bool timing = true;
  Capture* cap = nullptr;
  std::vector<int> deps;
};
struct CUstream_st {
  std::mutex m;
  std::condition_variable cv;
  std::deque<Op> q;
  bool busy = false, stop = false, nonblocking = false;
  Capture* cap = nullptr;
  std::vector<int> deps;
  std::thread th{[this] { loop(); }};
  void loop() {
    std::minstd_rand rng(config().seed + unsigned((uintptr_t)this >> 6));
    std::unique_lock l(m);
    for (;;) {
      cv.wait(l, [&] { return stop || !q.empty(); });
      if (q.empty()) return;
      Op op = std::move(q.front());
      q.pop_front();
      busy = true;
      l.unlock();
      if (int j = config().jitter_us) std::this_thread::sleep_for(std::chrono::microseconds(rng() % j));
      op();
      op = nullptr;
      l.lock();
      busy = false;
      if (q.empty()) cv.notify_all();
    }
  }
  void add(Op op) {
    {
      std::lock_guard l(m);
      q.push_back(std::move(op));
    }
    cv.notify_all();
  }
  bool idle() {
    std::lock_guard l(m);
    return q.empty() && !busy;
  }
  void sync() {
    std::unique_lock l(m);
    cv.wait(l, [&] { return q.empty() && !busy; });
  }
  ~CUstream_st() {
    {
      std::lock_guard l(m);
      stop = true;
    }
    cv.notify_all();
    th.join();
  }
};
static std::mutex g_str_m;
static std::vector<CUstream_st*> g_streams;
static int g_captures = 0;
static CUstream_st& null_stream() {
  static CUstream_st& s = *new CUstream_st;
  return s;
}
static bool is_null(cudaStream_t s) { return !s || s == cudaStreamLegacy || s == cudaStreamPerThread; }
static CUstream_st& str(cudaStream_t s) { return is_null(s) ? null_stream() : *s; }
static cudaError_t enqueue(cudaStream_t h, Op op, bool device = true) {
  if (device)
    op = [op = std::move(op)] {
      DeviceScope d;
      op();
    };
  CUstream_st& s = str(h);
  if (s.cap) {
    s.cap->g->nodes.push_back({std::move(op), s.deps});
    s.deps = {int(s.cap->g->nodes.size()) - 1};
    return cudaSuccess;
  }
  if (is_null(h)) {  // legacy default stream: ordered after, and before, all blocking streams
    std::vector<CUstream_st*> v;
    {
      std::lock_guard l(g_str_m);
      if (g_captures) return cudaErrorStreamCaptureImplicit;
      v = g_streams;
    }
    for (auto* x : v)
      if (!x->nonblocking) x->sync();
  } else if (!s.nonblocking)
    null_stream().sync();
  s.add(std::move(op));
  return cudaSuccess;
}
static cudaError_t no_capture() {
  std::lock_guard l(g_str_m);
  return g_captures ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
#define NO_CAPTURE() \
  if (cudaError_t ce_ = no_capture()) return ret(ce_)

cudaError_t cudaemu::enqueue_kernel(const Launch& L, std::function<void()> body, cudaStream_t s) {
  if (auto e = fault("launch")) return ret(e);
  uint64_t t = uint64_t(L.block.x) * L.block.y * L.block.z;
  if (!t || t > 1024 || L.block.z > 64 || !L.grid.x || !L.grid.y || !L.grid.z || L.grid.y > 65535 ||
      L.grid.z > 65535)
    return ret(cudaErrorInvalidConfiguration);
  {
    std::lock_guard l(g_mem_m);
    auto it = g_smem_limit.find(L.func);
    if (L.smem > size_t(it == g_smem_limit.end() ? 48 << 10 : it->second)) return ret(cudaErrorInvalidValue);
  }
  return ret(enqueue(s, [L, body = std::move(body)] {
    stat([](Stats& s) { s.launches++; });
    run_grid(L, body);
  }));
}

extern "C" {
cudaError_t cudaMalloc(void** p, size_t n) {
  FAULT();
  NO_CAPTURE();
  return ret(alloc(p, n, true));
}
cudaError_t cudaMallocHost(void** p, size_t n) {
  FAULT();
  return ret(alloc(p, n, false));
}
cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  FAULT();
  return ret(alloc(p, n, false));
}
cudaError_t cudaFree(void* p) {
  NO_CAPTURE();
  cudaDeviceSynchronize();
  return ret(cudaemu::release(p, true));
}
cudaError_t cudaFreeHost(void* p) {
  cudaDeviceSynchronize();
  return ret(cudaemu::release(p, false));
}
cudaError_t cudaHostRegister(void* p, size_t n, unsigned) {
  FAULT();
  std::lock_guard l(g_mem_m);
  g_mem[(uintptr_t)p] = {n, 0, false, false, nullptr, 0};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* p) {
  std::lock_guard l(g_mem_m);
  return ret(g_mem.erase((uintptr_t)p) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(size_t* f, size_t* t) {
  *t = config().vram, *f = *t - stats().vram_used;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  std::lock_guard l(g_mem_m);
  auto* x = find(p);
  *a = {}, a->type = !x ? cudaMemoryTypeUnregistered : x->device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind k, cudaStream_t st) {
  FAULT();
  if (!n) return cudaSuccess;
  bool dd, sd, pinned;
  {
    std::lock_guard l(g_mem_m);
    auto *a = find(d, n), *b = find(s, n);
    if ((find(d) && !a) || (find(s) && !b)) return ret(cudaErrorInvalidValue);  // range leaves its allocation
    dd = a && a->device, sd = b && b->device, pinned = a && b;
  }
  if (k != cudaMemcpyDefault && (dd != (k == cudaMemcpyHostToDevice || k == cudaMemcpyDeviceToDevice) ||
                                 sd != (k == cudaMemcpyDeviceToHost || k == cudaMemcpyDeviceToDevice)))
    return ret(cudaErrorInvalidValue);
  stat([&](Stats& x) {
    if (dd && !sd) x.h2d_bytes += n;
    if (sd && !dd) x.d2h_bytes += n;
    if (!pinned) x.pageable_async++;
  });
  if (pinned || str(st).cap) return ret(enqueue(st, [=] { memcpy(d, s, n); }));
  if (dd)
    return ret(enqueue(st, [d, v = std::vector<char>((const char*)s, (const char*)s + n)] {
      memcpy(d, v.data(), v.size());
    }));  // staged
  cudaError_t e = enqueue(st, [=] { memcpy(d, s, n); });
  return ret(e ? e : cudaStreamSynchronize(st));
}
cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind k) {
  cudaError_t e = cudaMemcpyAsync(d, s, n, k, nullptr);
  return e ? e : cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* d, int v, size_t n, cudaStream_t s) {
  FAULT();
  {
    std::lock_guard l(g_mem_m);
    auto* a = find(d, n);
    if (n && (!a || !a->device)) return ret(cudaErrorInvalidValue);
  }
  return ret(enqueue(s, [=] { memset(d, v, n); }));
}
cudaError_t cudaMemset(void* d, int v, size_t n) { return cudaMemsetAsync(d, v, n, nullptr); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
  FAULT();
  *s = new CUstream_st;
  (*s)->nonblocking = flags & cudaStreamNonBlocking;
  std::lock_guard l(g_str_m);
  g_streams.push_back(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned f) {
  return cudaStreamCreateWithPriority(s, f, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithPriority(s, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  {
    std::lock_guard l(g_str_m);
    std::erase(g_streams, s);
  }
  s->sync();
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  FAULT();
  NO_CAPTURE();
  str(s).sync();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  NO_CAPTURE();
  return str(s).idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  NO_CAPTURE();
  std::vector<CUstream_st*> v;
  {
    std::lock_guard l(g_str_m);
    v = g_streams;
  }
  for (auto* s : v) s->sync();
  null_stream().sync();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned f) {
  *e = new CUevent_st;
  (*e)->timing = !(f & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t st) {
  CUstream_st& s = str(st);
  e->cap = s.cap, e->deps = s.deps;
  if (s.cap) return cudaSuccess;
  auto x = e->s;
  uint64_t seq;
  {
    std::lock_guard l(x->m);
    seq = ++x->rec;
  }
  return ret(enqueue(
      st,
      [x, seq] {
        std::lock_guard l(x->m);
        x->done = seq, x->t = std::chrono::steady_clock::now();
        x->cv.notify_all();
      },
      false));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t st, cudaEvent_t e, unsigned) {
  CUstream_st& s = str(st);
  if (e->cap) {  // fork into / join within a capture
    if (s.cap && s.cap != e->cap) return ret(cudaErrorStreamCaptureMerge);
    if (!s.cap) s.cap = e->cap, s.deps.clear(), s.cap->joined.push_back(&s);
    s.deps.insert(s.deps.end(), e->deps.begin(), e->deps.end());
    return cudaSuccess;
  }
  if (s.cap) return ret(cudaErrorStreamCaptureIsolation);
  auto x = e->s;
  uint64_t seq;
  {
    std::lock_guard l(x->m);
    seq = x->rec;
  }
  return seq ? ret(enqueue(
                   st, [x, seq] { x->wait(seq); }, false))
             : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  NO_CAPTURE();
  uint64_t q;
  {
    std::lock_guard l(e->s->m);
    q = e->s->rec;
  }
  e->s->wait(q);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  NO_CAPTURE();
  std::lock_guard l(e->s->m);
  return e->s->done >= e->s->rec ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  if (!a->timing || !b->timing || !a->s->rec || !b->s->rec) return ret(cudaErrorInvalidResourceHandle);
  if (cudaEventQuery(a) || cudaEventQuery(b)) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(b->s->t - a->s->t).count();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void* p) {
  return ret(enqueue(
      s, [=] { fn(p); }, false));
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (is_null(s) || s->cap) return ret(cudaErrorIllegalState);
  s->cap = new Capture;
  s->cap->origin = s, s->deps.clear(), s->cap->joined = {s};
  std::lock_guard l(g_str_m);
  g_captures++;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* st) {
  *st = str(s).cap ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* out) {
  *out = nullptr;
  if (!s->cap || s->cap->origin != s) return ret(cudaErrorIllegalState);
  Capture* c = s->cap;
  std::vector<char> seen(c->g->nodes.size());  // every node must be an ancestor of the origin's last node
  for (std::vector<int> st = s->deps; !st.empty();) {
    int i = st.back();
    st.pop_back();
    if (!std::exchange(seen[i], 1))
      st.insert(st.end(), c->g->nodes[i].deps.begin(), c->g->nodes[i].deps.end());
  }
  for (auto* j : c->joined) j->cap = nullptr, j->deps.clear();
  {
    std::lock_guard l(g_str_m);
    g_captures--;
  }
  bool ok = std::count(seen.begin(), seen.end(), 0) == 0;
  if (ok) *out = new CUgraph_st(*c->g);
  delete c;
  return ret(ok ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* x, cudaGraph_t g, unsigned long long) {
  FAULT();
  *x = new CUgraphExec_st{std::make_shared<CUgraph_st>(*g)};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  delete g;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
  delete x;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t* v, size_t* n) {
  if (!v) *n = g->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
  FAULT();
  return ret(enqueue(s, [g = x->g] {  // any topological order is legal; schedule 2 picks a random one
    stat([](Stats& s) { s.graph_launches++; });
    std::minstd_rand rng(config().seed);
    std::vector<int> left(g->nodes.size()), ready;
    for (size_t i = 0; i < left.size(); i++)
      if (!(left[i] = int(g->nodes[i].deps.size()))) ready.push_back(int(i));
    while (!ready.empty()) {
      size_t k = config().schedule == 2 ? rng() % ready.size() : 0;
      int i = ready[k];
      ready.erase(ready.begin() + long(k));
      g->nodes[i].op();
      for (size_t j = 0; j < left.size(); j++)
        for (int d : g->nodes[j].deps)
          if (d == i && !--left[j]) ready.push_back(int(j));
    }
  }));
}
cudaError_t cudaGetLastError() { return std::exchange(t_last, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return t_last; }
const char* cudaGetErrorName(cudaError_t e) {
  static thread_local char b[32];
  snprintf(b, 32, e ? "cudaError%d" : "cudaSuccess", e);
  return b;
}
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory" : e ? "cuda error" : "no error";
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = int(env("CUDAEMU_DEVICES", 1));
  return *n ? cudaSuccess : ret(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d) { return ret(d ? cudaErrorInvalidDevice : cudaSuccess); }
cudaError_t cudaGetDevice(int* d) {
  *d = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  strcpy(p->name, "cudaemu");
  p->totalGlobalMem = config().vram, p->major = config().sm / 10, p->minor = config().sm % 10,
  p->warpSize = 32, p->maxThreadsPerBlock = 1024;
  p->multiProcessorCount = 4, p->sharedMemPerBlock = 48 << 10,
  p->sharedMemPerBlockOptin = size_t(config().smem_optin);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  *v = a == cudaDevAttrComputeCapabilityMajor         ? config().sm / 10
       : a == cudaDevAttrComputeCapabilityMinor       ? config().sm % 10
       : a == cudaDevAttrMultiProcessorCount          ? 4
       : a == cudaDevAttrMaxSharedMemoryPerBlockOptin ? config().smem_optin
       : a == cudaDevAttrMaxSharedMemoryPerBlock      ? 48 << 10
       : a == cudaDevAttrWarpSize                     ? 32
                                                      : 0;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* f, cudaFuncAttribute a, int v) {
  if (a != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (v > config().smem_optin) return ret(cudaErrorInvalidValue);
  std::lock_guard l(g_mem_m);
  g_smem_limit[f] = v;
  return cudaSuccess;
}

// ---- cuBLAS (column major, like the real one) --------------------------------------------------------
struct cublasContext {
  cudaStream_t s = nullptr;
};
cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  *h = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) {
  h->s = s;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
}
static float load(const void* p, cudaDataType t, size_t i) {
  return t == CUDA_R_32F    ? ((const float*)p)[i]
         : t == CUDA_R_16F  ? __half2float(((const __half*)p)[i])
         : t == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16*)p)[i])
                            : float(((const int8_t*)p)[i]);
}
static void store(void* p, cudaDataType t, size_t i, float v) {
  if (t == CUDA_R_32F)
    ((float*)p)[i] = v;
  else if (t == CUDA_R_16F)
    ((__half*)p)[i] = __float2half_rn(v);
  else if (t == CUDA_R_16BF)
    ((__nv_bfloat16*)p)[i] = __float2bfloat16_rn(v);
  else
    ((int*)p)[i] = int(v);
}
extern "C" cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta,
                                                     cublasOperation_t tb, int m, int n, int k,
                                                     const void* alpha, const void* A, cudaDataType at,
                                                     int lda, long long sa, const void* B, cudaDataType bt,
                                                     int ldb, long long sb, const void* beta, void* C,
                                                     cudaDataType ct, int ldc, long long sc, int batch,
                                                     cublasComputeType_t comp, cublasGemmAlgo_t) {
  if (comp != CUBLAS_COMPUTE_32F && comp != CUBLAS_COMPUTE_32F_FAST_TF32 &&
      comp != CUBLAS_COMPUTE_32F_FAST_16F && comp != CUBLAS_COMPUTE_32I)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  bool int8 = comp == CUBLAS_COMPUTE_32I;
  if (at != bt ||
      (int8 ? at != CUDA_R_8I || ct != CUDA_R_32I : at == CUDA_R_8I || (ct != CUDA_R_32F && ct != at)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, ta ? k : m) || ldb < std::max(1, tb ? n : k) ||
      ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!check_pointer(A, "") || !check_pointer(B, "") || !check_pointer(C, ""))
    return CUBLAS_STATUS_INVALID_VALUE;
  float al = int8 ? float(*(const int*)alpha) : *(const float*)alpha,
        be = int8 ? float(*(const int*)beta) : *(const float*)beta;
  auto sz = [](cudaDataType t) { return t == CUDA_R_32F || t == CUDA_R_32I ? 4 : t == CUDA_R_8I ? 1 : 2; };
  cudaError_t e = enqueue(h->s, [=] {
    std::vector<float> a(size_t(m) * k), b(k);
    for (int z = 0; z < batch; z++) {
      const char *Az = (const char*)A + z * sa * sz(at), *Bz = (const char*)B + z * sb * sz(bt);
      char* Cz = (char*)C + z * sc * sz(ct);
      for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
          a[size_t(i) * k + l] = load(Az, at, ta ? size_t(i) * lda + l : size_t(l) * lda + i);
      for (int j = 0; j < n; j++) {
        for (int l = 0; l < k; l++) b[l] = load(Bz, bt, tb ? size_t(l) * ldb + j : size_t(j) * ldb + l);
        for (int i = 0; i < m; i++) {
          float s[8]{};
          const float* r = &a[size_t(i) * k];
          int l = 0;
          for (; l + 8 <= k; l += 8)
            for (int q = 0; q < 8; q++) s[q] += r[l + q] * b[l + q];
          for (; l < k; l++) s[0] += r[l] * b[l];
          float v = al * (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
          size_t o = size_t(j) * ldc + i;
          store(Cz, ct, o, be == 0 ? v : v + be * (int8 ? float(((int*)Cz)[o]) : load(Cz, ct, o)));
        }
      }
    }
  });
  return e ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
extern "C" cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                       int n, int k, const void* al, const void* A, cudaDataType at, int lda,
                                       const void* B, cudaDataType bt, int ldb, const void* be, void* C,
                                       cudaDataType ct, int ldc, cublasComputeType_t comp,
                                       cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, al, A, at, lda, 0, B, bt, ldb, 0, be, C, ct, ldc, 0,
                                    1, comp, algo);
}
extern "C" cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                         int n, int k, const float* al, const float* A, int lda,
                                         const float* B, int ldb, const float* be, float* C, int ldc) {
  return cublasGemmEx(h, ta, tb, m, n, k, al, A, CUDA_R_32F, lda, B, CUDA_R_32F, ldb, be, C, CUDA_R_32F, ldc,
                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
