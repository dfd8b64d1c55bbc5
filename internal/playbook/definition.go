package playbook

import (
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

// Definition is a playbook with the fields that it has in a file of settings, as JSON. [Parse] reads it.
type Definition struct {
	Name string   `json:"name,omitempty" doc:"1 to 55 bytes, without blanks and / , ? # %."`
	When *Trigger `json:"when,omitempty" doc:"Events that start a run. Left out: none; it is started by hand."`
	// OnRecover is a text, or a list of steps.
	OnRecover any              `json:"on_recover,omitempty" doc:"What happens to a run when its subject recovers: cancel, ignore, or a list of steps that run instead. Left out: cancel."`
	Steps     []StepDefinition `json:"steps"`
}

// StepDefinition is a step with the fields that it has in a file of settings. It has one action.
type StepDefinition struct {
	Name     string   `json:"name" doc:"Identifies the step after a restart; unique in the playbook."`
	After    []string `json:"after,omitzero" doc:"The steps before it; [] for none. Left out: the one above it."`
	If       string   `json:"if,omitempty" doc:"A condition that must hold; after not, one that must not."`
	Attempts int      `json:"attempts,omitempty" doc:"Attempts before it has failed, 1 to 1000. Left out: 3."`
	Pause    string   `json:"pause,omitempty" doc:"Bound of the random pause after the first attempt, such as 2s. Left out: 1s."`
	Timeout  string   `json:"timeout,omitempty" doc:"Of one attempt, up to 5m. Left out: 10s."`

	Probe     *ProbeDefinition `json:"probe,omitempty" doc:"Ask the device for a sign of life."`
	Webhook   *Deliver         `json:"webhook,omitempty" doc:"Make a job for an endpoint of kind webhook, or for a URL."`
	MQTT      *Deliver         `json:"mqtt,omitempty" doc:"Make a job for an endpoint of kind mqtt."`
	Deliver   *Deliver         `json:"deliver,omitempty" doc:"Make a job for an endpoint of any kind."`
	Wait      string           `json:"wait,omitempty" doc:"Wait, 1s to 30d."`
	Condition []string         `json:"condition,omitempty" doc:"Check whether the subject is in one of these states."`
	Command   *Command         `json:"command,omitempty" doc:"Run a program; only if the server allows it."`
	Note      string           `json:"note,omitempty" doc:"Write a text to the log and the run."`
}

// ProbeDefinition is a [Probe] with the fields that it has in a file of settings.
type ProbeDefinition struct {
	Times int    `json:"times,omitempty" doc:"1 to 100. Left out: 2."`
	Wait  string `json:"wait,omitempty" doc:"For the answer, 100ms to 1h. Left out: 5s."`
}

// Definition returns a playbook as it is written in a file of settings.
func (p *Playbook) Definition() Definition {
	d := Definition{Name: p.Name, When: p.On, Steps: stepDefinitions(p.Steps)}
	switch p.Recovery {
	case Cancel:
	case Divert:
		d.OnRecover = stepDefinitions(p.Recovered)
	default:
		d.OnRecover = p.Recovery.String()
	}
	return d
}

func stepDefinitions(steps []Step) []StepDefinition {
	list := make([]StepDefinition, len(steps))
	for i := range steps {
		list[i] = steps[i].definition()
	}
	return list
}

func (s *Step) definition() StepDefinition {
	d := StepDefinition{Name: s.Name, After: s.After, If: s.If, Attempts: s.Attempts, Pause: spanText(s.Pause), Timeout: spanText(s.Timeout)}
	if s.Not {
		d.If = "not " + s.If
	}
	switch do := s.Do.(type) {
	case Probe:
		d.Probe = &ProbeDefinition{Times: do.Times, Wait: spanText(do.Wait)}
	case Deliver:
		switch do.As {
		case "webhook":
			d.Webhook = &do
		case "mqtt":
			d.MQTT = &do
		default:
			d.Deliver = &do
		}
	case Wait:
		d.Wait = spanText(do.For)
	case Condition:
		d.Condition = do.Is
	case Command:
		d.Command = &do
	case Note:
		d.Note = do.Text
	}
	return d
}

// spanText returns a duration as it is written, and nothing for the default.
func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return duration.String(d)
}
