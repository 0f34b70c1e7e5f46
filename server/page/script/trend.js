// Draws the tokens per second of the last minute as a line.

const kSeconds = 60;

export class Trend {
  constructor(canvas) {
    this.canvas = canvas;
    this.points = [];  // {seconds, rate}
    document.addEventListener("hearth-theme", () => this.draw());
  }

  add(seconds, rate) {
    // The time restarts with each event stream, so the page has connected again.
    if (this.points.length > 0 && seconds < this.points[this.points.length - 1].seconds) this.points = [];
    this.points.push({seconds, rate});
    while (this.points[0].seconds < seconds - kSeconds) this.points.shift();
    this.draw();
  }

  draw() {
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const width = this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    const height = this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    if (this.points.length < 2 || width === 0) return;
    const to = this.canvas.getContext("2d");
    const end = this.points[this.points.length - 1].seconds;
    const most = Math.max(1, ...this.points.map((point) => point.rate));
    to.strokeStyle = getComputedStyle(this.canvas).color;
    to.lineWidth = 1.5 * ratio;
    to.lineJoin = "round";
    to.beginPath();
    for (const {seconds, rate} of this.points) {
      to.lineTo(width * (1 - (end - seconds) / kSeconds), (height - 2) * (1 - rate / most) + 1);
    }
    to.stroke();
  }
}
