// Lets the search work from a folder. Browsers refuse a Worker whose script is a file:// address, so there a hidden frame
// takes its place: same messages, on the page's own thread. On a server the browser's Worker stays.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      this.ready = new Promise((done) => {
        const inside = this.frame.contentWindow;
        // The script believes to be in a worker: what it posts goes to the page, and it may load scripts.
        inside.postMessage = (data) => {
          const event = new MessageEvent("message", { data });
          this.dispatchEvent(event);
          if (this.onmessage) this.onmessage(event);
        };
        const load = (source) => new Promise((loaded, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(source, location.href).href;
          script.onload = loaded;
          script.onerror = failed;
          inside.document.body.appendChild(script);
        });
        inside.importScripts = (...sources) =>
          sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
        load(address).then(done, (error) => this.dispatchEvent(new ErrorEvent("error", { message: String(error) })));
      });
    }
    postMessage(data) {
      this.ready.then(() => {
        const event = new this.frame.contentWindow.MessageEvent("message", { data });
        this.frame.contentWindow.dispatchEvent(event);
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
