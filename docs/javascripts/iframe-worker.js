// Browsers start no worker for a page that was opened as a file. There the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc = "<!doctype html><body></body>";
      frame.addEventListener("load", () => this.begin(frame.contentWindow, url), { once: true });
      document.body.append(frame);
    }

    begin(inside, url) {
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.addEventListener("load", () => {
        this.inside = inside;
        this.waiting.forEach((data) => this.postMessage(data));
      });
      script.src = url;
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.inside) {
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      } else {
        this.waiting.push(data);
      }
    }
  };
}
