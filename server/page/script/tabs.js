// Keeps several tabs of the page in step: which conversations were saved or deleted, and which are being
// answered in another tab.

const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("hearth");
const elsewhere = new Set();  // ids of the conversations that another tab answers

export function tell(kind, id) {
  channel?.postMessage({kind, id});
}

export function runsElsewhere(id) {
  return elsewhere.has(id);
}

/** running(): ids of the conversations that this tab answers. changed(kind, id): called for "saved", "deleted",
 *  "runs" and "ended" of another tab. */
export function startTabs(running, changed) {
  if (channel === null) return;
  channel.onmessage = ({data: {kind, id}}) => {
    if (kind === "who") {
      for (const one of running()) tell("runs", one);
      return;
    }
    if (kind === "runs") elsewhere.add(id);
    if (kind === "ended") elsewhere.delete(id);
    changed(kind, id);
  };
  addEventListener("pagehide", () => {
    for (const one of running()) tell("ended", one);
  });
  tell("who");
}
